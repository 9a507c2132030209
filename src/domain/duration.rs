//! Durations as people write them in flags and annotations.

use std::time::Duration;

/// A text that is no duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("write a duration as whole hours, minutes and seconds, such as 90s, 10m or 1h30m")]
pub struct MalformedDuration;

/// Units in the order in which Go writes them, each with its seconds.
const UNITS: [(char, u64); 3] = [('h', 3600), ('m', 60), ('s', 1)];

/// Maximum number before a unit: nine digits.
const NUMBER_MAX: u64 = 999_999_999;

/// Reads a duration such as `90s`, `10m` or `1h30m`: whole numbers of up to nine digits, each unit
/// at most once, the largest first.
///
/// # Errors
/// [`MalformedDuration`] for every other form, also for those that Go or ISO 8601 would allow.
pub fn parse_duration(text: &str) -> Result<Duration, MalformedDuration> {
    let mut rest = text;
    let mut seconds = 0;
    for (unit, of_unit) in UNITS {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Some(after) = rest[digits..].strip_prefix(unit) else {
            continue;
        };
        if !(1..=9).contains(&digits) {
            return Err(MalformedDuration);
        }
        let number: u64 = rest[..digits].parse().map_err(|_| MalformedDuration)?;
        seconds += number * of_unit;
        rest = after;
    }
    match rest.is_empty() && !text.is_empty() {
        true => Ok(Duration::from_secs(seconds)),
        false => Err(MalformedDuration),
    }
}

/// Formats whole seconds as [`parse_duration`] reads them: as a number of seconds if that has at
/// most nine digits, otherwise in hours, minutes and seconds.
pub(super) fn format_duration(duration: Duration) -> String {
    let mut rest = duration.as_secs();
    if rest <= NUMBER_MAX {
        return format!("{rest}s");
    }
    let mut text = String::new();
    for (unit, of_unit) in UNITS {
        let number = (rest / of_unit).min(NUMBER_MAX);
        rest -= number * of_unit;
        if number > 0 {
            text.push_str(&number.to_string());
            text.push(unit);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_duration_is_written_in_hours_minutes_and_seconds() {
        for (text, written) in [
            ("10m", "600s"),
            ("999999999s", "999999999s"),
            ("277777h46m40s", "277777h46m40s"),
            ("300000h", "300000h"),
            ("999999999h", "999999999h"),
            (
                "999999999h999999999m999999999s",
                "999999999h999999999m999999999s",
            ),
        ] {
            let duration = parse_duration(text).expect("a duration");
            assert_eq!(format_duration(duration), written);
            assert_eq!(parse_duration(written), Ok(duration), "{written}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_duration_is_read_as_it_is_written(
            hours in 0..=NUMBER_MAX, minutes in 0..=NUMBER_MAX, seconds in 0..=NUMBER_MAX,
        ) {
            let text = format!("{hours}h{minutes}m{seconds}s");
            let duration = parse_duration(&text).expect("a duration");
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
    }

    #[test]
    fn duration_has_one_form() {
        for (text, seconds) in [
            ("90s", 90),
            ("10m", 600),
            ("1h30m", 5400),
            ("1h0m5s", 3605),
            ("87600h", 87600 * 3600),
            ("0s", 0),
        ] {
            let expected = Ok(Duration::from_secs(seconds));
            assert_eq!(parse_duration(text), expected, "{text}");
        }
        for text in [
            "",
            "10",
            "m",
            "10 m",
            " 10m",
            "10m ",
            "PT10M",
            "00:10:00",
            "10 minutes",
            "10min",
            "1d",
            "1.5h",
            "500ms",
            "-1s",
            "+1s",
            "1s1m",
            "1m1m",
            "10M",
            "1h,30m",
            "9999999999s",
            "１s",
        ] {
            assert_eq!(parse_duration(text), Err(MalformedDuration), "{text:?}");
        }
    }
}
