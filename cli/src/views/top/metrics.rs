//! Metrics of the controller in Prometheus' text format
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>). Pure.

use std::collections::BTreeMap;

/// Samples of one scrape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<Sample>);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    pub value: f64,
}

impl Sample {
    /// Returns the value of a label, or an empty string if the sample lacks the label.
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels
            .get(name)
            .map(String::as_str)
            .unwrap_or_default()
    }

    /// Parses a line such as `name{label="value"} 1 # {trace_id="exemplar"} 1`.
    fn parse(line: &str) -> Option<Self> {
        let end = line.find(['{', ' '])?;
        let (name, rest) = line.split_at(end);
        let mut labels = BTreeMap::new();
        let mut rest = rest;
        if let Some(text) = rest.strip_prefix('{') {
            rest = parse_labels(text, &mut labels)?;
        }
        let value = rest.split_whitespace().next()?.parse().ok()?;
        Some(Self {
            name: name.to_owned(),
            labels,
            value,
        })
    }
}

/// Parses labels into `labels`. Returns the text after the closing brace.
fn parse_labels<'a>(text: &'a str, labels: &mut BTreeMap<String, String>) -> Option<&'a str> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(rest) = rest.strip_prefix('}') {
            return Some(rest);
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = quoted.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => match letters.next()? {
                    (_, 'n') => value.push('\n'),
                    (_, escaped) => value.push(escaped),
                },
                (_, letter) => value.push(letter),
            }
        };
        labels.insert(name.to_owned(), value);
        rest = quoted.get(end + 1..)?;
    }
}

impl Samples {
    /// Parses the response of a scrape. Skips invalid lines.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(lines.filter_map(Sample::parse).collect())
    }

    /// Returns the samples with the given name.
    pub(crate) fn of(&self, name: &str) -> impl Iterator<Item = &Sample> {
        self.0.iter().filter(move |sample| sample.name == name)
    }

    /// Returns the value of the only sample with the given name.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.of(name).next().map(|sample| sample.value)
    }

    /// Returns the increase of each sample with the given name since `earlier`. A smaller value
    /// means that the process restarted and its counter began at zero.
    pub(crate) fn growth<'a>(
        &'a self,
        earlier: &'a Self,
        name: &'a str,
    ) -> impl Iterator<Item = (&'a Sample, f64)> {
        self.of(name).map(move |sample| {
            let mut before = earlier.of(name);
            let before = before.find(|one| one.labels == sample.labels);
            let before = before.map_or(0.0, |one| one.value);
            let grew = sample.value - before;
            (sample, if grew < 0.0 { sample.value } else { grew })
        })
    }

    /// Returns a quantile of a histogram's observations since `earlier`, or `None` without
    /// observations. Interpolates within the bucket like Prometheus' `histogram_quantile`.
    pub(crate) fn quantile(&self, earlier: &Self, histogram: &str, quantile: f64) -> Option<f64> {
        let name = format!("{histogram}_bucket");
        let mut buckets: Vec<_> = self
            .growth(earlier, &name)
            .filter_map(|(sample, count)| Some((sample.label("le").parse::<f64>().ok()?, count)))
            .collect();
        buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (_, total) = *buckets.last()?;
        if total <= 0.0 {
            return None;
        }
        let rank = quantile * total;
        let (mut below, mut counted) = (0.0, 0.0);
        for (bound, count) in buckets {
            if count >= rank {
                if bound.is_infinite() {
                    return Some(below);
                }
                let within = (rank - counted) / (count - counted).max(f64::MIN_POSITIVE);
                return Some(below + (bound - below) * within);
            }
            (below, counted) = (bound, count);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLIER: &str =
        "# HELP a A\na_total{cluster=\"x\",kind=\"Service\"} 5\na_total{cluster=\"y\"} 7\n";
    const LATER: &str = "a_total{cluster=\"x\",kind=\"Service\"} 8 # {trace_id=\"1\"} 1 1.5\na_total{cluster=\"y\"} 2\na_total{cluster=\"z\"} 4\nb 1.5\n# EOF\n";

    #[test]
    fn counters_grow_and_begin_again_with_their_process() {
        let (earlier, later) = (Samples::parse(EARLIER), Samples::parse(LATER));
        let growth: Vec<_> = later
            .growth(&earlier, "a_total")
            .map(|(sample, grew)| (sample.label("cluster").to_owned(), grew))
            .collect();
        let expected = [("x", 3.0), ("y", 2.0), ("z", 4.0)];
        assert_eq!(growth, expected.map(|(name, grew)| (name.to_owned(), grew)));
        assert_eq!((later.value("b"), later.value("c")), (Some(1.5), None));
    }

    #[test]
    fn labels_may_hold_any_text() {
        let samples =
            Samples::parse("a{b=\"x\\\"},{\\\\\\n\",c=\"\"} 1\nbroken{b=\"x 1\nalso broken\n");
        let sample = samples.of("a").next().expect("a sample");
        assert_eq!((sample.label("b"), sample.label("c")), ("x\"},{\\\n", ""));
        assert_eq!(samples.0.len(), 1);
    }

    #[test]
    fn quantiles_are_those_of_prometheus() {
        let text = |counts: [u32; 4]| {
            let [a, b, c, all] = counts;
            let text = format!(
                "h_bucket{{le=\"0.1\"}} {a}\nh_bucket{{le=\"0.2\"}} {b}\nh_bucket{{le=\"0.4\"}} {c}\nh_bucket{{le=\"+Inf\"}} {all}\n"
            );
            Samples::parse(&text)
        };
        let earlier = text([1, 1, 1, 1]);
        let cases: [([u32; 4], f64, Option<f64>); 4] = [
            ([1, 1, 1, 1], 0.5, None),
            ([1, 11, 11, 11], 0.5, Some(0.15)),
            ([6, 11, 11, 11], 0.99, Some(0.198)),
            ([1, 1, 1, 11], 0.5, Some(0.4)),
        ];
        for (later, quantile, expected) in cases {
            let found = text(later).quantile(&earlier, "h", quantile);
            let near = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-9,
                (found, expected) => found == expected,
            };
            assert!(near, "{later:?}: {found:?}, not {expected:?}");
        }
    }
}
