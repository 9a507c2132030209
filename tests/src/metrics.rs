//! Metrics as a process serves them.

/// The samples of a `/metrics` answer.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Vec<Sample>);

#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: String,
    value: f64,
}

impl Metrics {
    /// The sum of all samples of this name that bear these labels; `None` where there is none.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let wanted: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}=\"{value}\""))
            .collect();
        let values: Vec<f64> = self
            .0
            .iter()
            .filter(|sample| sample.name == name)
            .filter(|sample| wanted.iter().all(|label| sample.has(label)))
            .map(|sample| sample.value)
            .collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }

    pub(crate) fn parse(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        Self(samples.filter_map(Sample::parse).collect())
    }
}

impl Sample {
    fn parse(line: &str) -> Option<Self> {
        // An exemplar may follow after " # ".
        let line = line.split(" # ").next()?;
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        Some(Self {
            name: name.to_owned(),
            labels: labels.trim_end_matches('}').to_owned(),
            value: value.parse().ok()?,
        })
    }

    fn has(&self, label: &str) -> bool {
        self.labels
            .match_indices(label)
            .any(|(at, _)| at == 0 || self.labels.as_bytes()[at - 1] == b',')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE causeway_controller_leader gauge
causeway_controller_leader 1
causeway_controller_writes_total{cluster=\"a\",kind=\"Service\",verb=\"create\"} 2
causeway_controller_writes_total{cluster=\"a\",kind=\"EndpointSlice\",verb=\"create\"} 3
causeway_controller_writes_total{cluster=\"aa\",kind=\"EndpointSlice\",verb=\"create\"} 5
# EOF
";

    #[test]
    fn samples_are_summed_by_name_and_labels() {
        let metrics = Metrics::parse(TEXT);
        let writes = |labels: &[_]| metrics.get("causeway_controller_writes_total", labels);
        assert_eq!(metrics.get("causeway_controller_leader", &[]), Some(1.0));
        assert_eq!(writes(&[("cluster", "a")]), Some(5.0));
        assert_eq!(writes(&[("kind", "EndpointSlice")]), Some(8.0));
        assert_eq!(writes(&[("cluster", "a"), ("kind", "Service")]), Some(2.0));
        assert_eq!(writes(&[("cluster", "b")]), None);
        assert_eq!(metrics.get("causeway_controller", &[]), None);
    }
}
