//! Documents made of documents: JSON in, JSON of nearly the same shape out.
//!
//! A mutation of bytes seldom is JSON any more, and JSON seldom of the right shape. So strings
//! become strings that mean something here, lists lose and repeat entries, fields come and go. The
//! same seed gives the same outcome.

use serde_json::{Map, Number, Value, json};

use crate::vocabulary::{FIELDS, NUMBERS, STRINGS};

/// At most so many changes at once.
const CHANGES_MAX: u64 = 5;

/// Numbers that look random and are the same every time (splitmix64, Steele et al. 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of that seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`; 0 where that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).checked_rem(end).unwrap_or_default()
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or_default()
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }

    fn one_in(&mut self, chance: u64) -> bool {
        self.below(chance) == 0
    }
}

/// A mutation of a document as text; `None` where its bytes are to be mutated instead: it is no
/// JSON, the outcome is longer than `max` bytes, or it is the one in `bytes_one_in`.
pub fn mutate(text: &[u8], max: usize, seed: u64, bytes_one_in: u64) -> Option<Vec<u8>> {
    let mut random = Random::new(seed);
    if random.one_in(bytes_one_in) {
        return None;
    }
    let mut document: Value = serde_json::from_slice(text).ok()?;
    for _ in 0..=random.below(CHANGES_MAX) {
        change(&mut document, &mut random);
    }
    let text = serde_json::to_vec(&document).ok()?;
    (text.len() <= max).then_some(text)
}

/// One change somewhere in the document.
pub fn change(document: &mut Value, random: &mut Random) {
    let other = random.index(count(document));
    let other = nth(document, other).clone();
    let target = random.index(count(document));
    let target = nth(document, target);
    match target {
        Value::Array(list) if !random.one_in(8) => change_list(list, other, random),
        Value::Object(fields) if !random.one_in(8) => change_fields(fields, other, random),
        Value::String(text) if !random.one_in(8) => change_text(text, random),
        Value::Number(number) if !random.one_in(8) => *number = changed_number(number, random),
        any => *any = anything(other, random),
    }
}

fn change_list(list: &mut Vec<Value>, other: Value, random: &mut Random) {
    let at = random.index(list.len());
    match random.below(6) {
        _ if list.is_empty() => list.push(anything(other, random)),
        0 => {
            list.remove(at);
        }
        1 => list.push(list[at].clone()),
        2 => list.insert(at, list[random.index(list.len())].clone()),
        3 => {
            let other = random.index(list.len());
            list.swap(at, other);
        }
        4 => list.push(anything(other, random)),
        _ => list.clear(),
    }
}

fn change_fields(fields: &mut Map<String, Value>, other: Value, random: &mut Random) {
    let names: Vec<_> = fields.keys().cloned().collect();
    if names.is_empty() || random.one_in(2) {
        let (name, usual) = random.one_of(FIELDS);
        let value = match random.below(4) {
            0 => anything(other, random),
            _ => serde_json::from_str(usual).unwrap_or_default(),
        };
        fields.insert((*name).to_owned(), value);
        return;
    }
    let name = random.one_of(&names);
    match random.below(3) {
        0 => {
            fields.remove(name);
        }
        1 => {
            fields.insert(name.clone(), anything(other, random));
        }
        _ => {
            let value = fields[random.one_of(&names)].clone();
            fields.insert(name.clone(), value);
        }
    }
}

fn change_text(text: &mut String, random: &mut Random) {
    match random.below(8) {
        0 => text.push(*random.one_of(&['a', '-', '.', '0', 'A', '\u{0}', 'ä', '/', '~'])),
        1 => {
            text.pop();
        }
        2 => *text = text.repeat(2),
        3 => *text = "x".repeat(random.index(70)),
        _ => *text = (*random.one_of(STRINGS)).to_owned(),
    }
}

fn changed_number(number: &Number, random: &mut Random) -> Number {
    let step = i64::try_from(random.below(3)).unwrap_or_default() - 1;
    match number.as_i64() {
        Some(whole) if random.one_in(2) => whole.wrapping_add(step).into(),
        _ => (*random.one_of(NUMBERS)).into(),
    }
}

fn anything(other: Value, random: &mut Random) -> Value {
    match random.below(10) {
        0 => Value::Null,
        1 => json!([]),
        2 => json!({}),
        3 => json!(random.one_in(2)),
        4 => json!(*random.one_of(NUMBERS)),
        5..=6 => json!(*random.one_of(STRINGS)),
        _ => other,
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0_usize,
    }
}

/// The value of that number in the order of [`count`].
fn nth(value: &mut Value, mut index: usize) -> &mut Value {
    if index == 0 {
        return value;
    }
    index -= 1;
    let children: Vec<&mut Value> = match value {
        Value::Array(list) => list.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => Vec::new(),
    };
    for child in children {
        let size = count(child);
        if index < size {
            return nth(child, index);
        }
        index -= size;
    }
    unreachable!("the index is below the count")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_document_and_seeds_differ() {
        let text =
            br#"{"spec": {"types": ["CrossCluster"], "ports": [{"name": "http", "port": 80}]}}"#;
        let outcomes: std::collections::BTreeSet<_> = (0..1000)
            .filter_map(|seed| {
                let once = mutate(text, 4096, seed, 8);
                assert_eq!(once, mutate(text, 4096, seed, 8));
                once
            })
            .collect();
        assert!(outcomes.len() > 500, "{} of 1000 differ", outcomes.len());
        assert!(outcomes.iter().all(|text| text.len() <= 4096));
    }

    #[test]
    fn what_is_no_json_is_left_to_a_mutation_of_bytes() {
        assert!((0..100).all(|seed| mutate(b"{", 4096, seed, 8).is_none()));
        assert!((0..100).all(|seed| mutate(b"{\"a\": 1}", 0, seed, 8).is_none()));
    }
}
