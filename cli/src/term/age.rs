//! Elapsed time in the format of kubectl.

use k8s_openapi::jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Formats the time since `then` with about two digits of precision: `45s`, `3m20s`, `15m`,
/// `5h10m`, `20h`, `3d4h`, `40d`, `2y10d`.
pub(crate) fn since(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    let both = |unit: i64, suffix: &str, smaller: i64, smaller_suffix: &str| match (seconds % unit)
        / smaller
    {
        0 => format!("{}{suffix}", seconds / unit),
        rest => format!("{}{suffix}{rest}{smaller_suffix}", seconds / unit),
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => both(MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => both(HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => both(DAY, "d", HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => both(YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::SignedDuration;

    use super::*;

    #[test]
    fn an_age_reads_as_kubectl_writes_it() {
        let now: Timestamp = "2026-11-21T00:00:00Z".parse().expect("a time");
        for (seconds, text) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (900, "15m"),
            (3 * HOUR + 600, "3h10m"),
            (20 * HOUR, "20h"),
            (3 * DAY + 4 * HOUR, "3d4h"),
            (40 * DAY, "40d"),
            (2 * YEAR + 10 * DAY, "2y10d"),
            (9 * YEAR, "9y"),
        ] {
            assert_eq!(since(now - SignedDuration::from_secs(seconds), now), text);
        }
    }
}
