use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::fixtures::now;
use crate::plan::shares::subset::hash;

/// Provider with its wanted share, its endpoints by number, and its cut.
#[derive(Clone, Debug)]
struct Stock {
    wanted: Option<u8>,
    is_own: bool,
    endpoints: Vec<u32>,
    hashes: Vec<u32>,
    before: Option<Option<u32>>,
}

impl Stock {
    fn new(number: u32, wanted: Option<u8>, ready: u32) -> Self {
        let mut stock = Self {
            wanted,
            is_own: false,
            endpoints: (0..ready).map(|one| (number << 16) + one).collect(),
            hashes: Vec::new(),
            before: None,
        };
        stock.rehash();
        stock
    }

    fn rehash(&mut self) {
        let hash = |number: &u32| hash(7, IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number)));
        self.hashes = self.endpoints.iter().map(hash).collect();
    }

    /// Returns the endpoints that its cut chooses.
    fn chosen(&self) -> Vec<u32> {
        let cut = self.before.flatten();
        let all = self.endpoints.iter().zip(&self.hashes);
        let chosen = all.filter(|(_, hash)| cut.is_none_or(|below| **hash < below));
        chosen.map(|(endpoint, _)| *endpoint).collect()
    }
}

/// Reads providers such as `10%:1 8 own:3`: one of 10% with one ready endpoint, one of the rest
/// with 8, and the consumer's own pods.
fn stocks(text: &str) -> Vec<Stock> {
    let words = text.split(' ').zip(0..);
    let stocks = words.map(|(word, number)| {
        let (kind, ready) = word.split_once(':').unwrap_or(("", word));
        let wanted = kind
            .strip_suffix('%')
            .map(|text| text.parse().expect("a number"));
        Stock {
            is_own: kind == "own",
            ..Stock::new(number, wanted, ready.parse().expect("a number"))
        }
    });
    stocks.collect()
}

fn rest(stocks: &[Stock]) -> u8 {
    100 - stocks.iter().filter_map(|stock| stock.wanted).sum::<u8>()
}

fn divided(stocks: &[Stock], is_known: bool, since: Option<TimePoint>, at: TimePoint) -> Division {
    let parts = stocks.iter().map(|stock| Part {
        hashes: &stock.hashes,
        wanted: stock.wanted,
        is_own: stock.is_own,
        before: stock.before,
    });
    let parts: Vec<_> = parts.collect();
    divide(&parts, rest(stocks), is_known, (since, at))
}

/// Divides, and keeps the cuts as copies do. Returns the number of cuts that changed.
fn settle(stocks: &mut [Stock], since: &mut Option<TimePoint>, at: TimePoint) -> usize {
    let division = divided(stocks, true, *since, at);
    *since = division.spare_since;
    let mut changed = 0;
    for (stock, cut) in stocks.iter_mut().zip(division.cuts) {
        changed += usize::from(stock.before != Some(cut));
        stock.before = Some(cut);
    }
    changed
}

fn chosen(stocks: &[Stock]) -> Vec<usize> {
    stocks.iter().map(|stock| stock.chosen().len()).collect()
}

#[test]
fn largest_numbers_of_endpoints_give_the_shares() {
    for (text, expected) in [
        ("10%:10 90", vec![10, 90]),
        ("10%:1 100", vec![1, 9]),
        ("10%:10 9", vec![1, 9]),
        ("10%:1 8", vec![1, 8]),
        ("1%:5 3", vec![1, 3]),
        ("10%:3 20%:3 3 30", vec![2, 3, 1, 11]),
        // Without ready endpoints the others take the share.
        ("10%:5 0", vec![5, 0]),
        ("10%:0 4 4", vec![0, 4, 4]),
        // Standby only, unless nothing else is ready.
        ("0%:5 3", vec![0, 3]),
        ("0%:5 0", vec![5, 0]),
        ("100%:2 8", vec![2, 0]),
        ("100%:0 8", vec![0, 8]),
        ("10%:0 0", vec![0, 0]),
        // Own pods are used whatever their share; the others follow as far as they go.
        ("10%:5 own:20", vec![2, 20]),
        ("10%:1 own:20 20", vec![1, 20, 20]),
        ("10%:10 own:1", vec![1, 1]),
        ("100%:3 own:2", vec![3, 2]),
    ] {
        let mut stocks = stocks(text);
        settle(&mut stocks, &mut None, now());
        assert_eq!(chosen(&stocks), expected, "{text}");
    }
}

#[test]
fn cuts_stay_while_the_shares_are_near() {
    let mut stocks = stocks("10%:100 500");
    let mut since = None;
    settle(&mut stocks, &mut since, now());
    assert_eq!(chosen(&stocks), [56, 500]);
    for _ in 0..9 {
        stocks[1].endpoints.pop();
        stocks[1].rehash();
        assert_eq!(settle(&mut stocks, &mut since, now()), 0);
    }
    assert_eq!(chosen(&stocks), [56, 491]);
}

#[test]
fn share_is_restored_at_once_and_more_endpoints_follow_later() {
    let began = now();
    let (mut stocks, mut since) = (stocks("10%:1 45 45"), None);
    settle(&mut stocks, &mut since, began);
    assert_eq!(chosen(&stocks), [1, 5, 5]);
    // The second endpoint would double the share: it is a standby endpoint at first.
    let grown = Stock::new(0, Some(10), 2);
    (stocks[0].endpoints, stocks[0].hashes) = (grown.endpoints, grown.hashes);
    assert_eq!(settle(&mut stocks, &mut since, began), 1);
    assert_eq!((chosen(&stocks), since), (vec![1, 5, 5], Some(began)));
    let division = divided(&stocks, true, since, began.after(HOLD / 2));
    assert_eq!(division.again_at, Some(began.after(HOLD)));
    assert_eq!(settle(&mut stocks, &mut since, began.after(HOLD / 2)), 0);
    settle(&mut stocks, &mut since, began.after(HOLD));
    assert_eq!(chosen(&stocks), [2, 9, 9]);
    assert_eq!(settle(&mut stocks, &mut since, began.after(HOLD * 2)), 0);
    assert_eq!(since, None);
}

#[test]
fn flapping_endpoint_changes_no_other_provider() {
    let began = now();
    let (mut stocks, mut since) = (stocks("10%:1 90"), None);
    settle(&mut stocks, &mut since, began);
    let one = stocks[0].clone();
    for turn in 0..10 {
        let at = began.after(Duration::from_secs(turn * 20));
        let is_ready = turn % 2 == 1;
        stocks[0].endpoints = if is_ready {
            one.endpoints.clone()
        } else {
            Vec::new()
        };
        stocks[0].rehash();
        assert_eq!(settle(&mut stocks, &mut since, at), 0, "{turn}");
        assert_eq!(chosen(&stocks), [usize::from(is_ready), 9]);
    }
}

#[test]
fn unknown_provider_changes_no_cut() {
    let (mut stocks, mut since) = (stocks("10%:10 90"), None);
    settle(&mut stocks, &mut since, now());
    let lost = Stock::new(1, None, 5);
    (stocks[1].endpoints, stocks[1].hashes) = (lost.endpoints, lost.hashes);
    let division = divided(&stocks, false, None, now());
    assert_eq!(division.cuts, [None, None]);
    // Unless nothing would be ready.
    stocks[0].before = Some(Some(0));
    stocks[1].before = Some(Some(0));
    let division = divided(&stocks, false, None, now());
    assert_eq!(division.chosen, [1, 5]);
}

/// Returns the deviation of the chosen endpoints, and the smallest possible one.
fn deviations(stocks: &[Stock]) -> (u64, u64) {
    let parts = stocks.iter().map(|stock| Part {
        hashes: &stock.hashes,
        wanted: stock.wanted,
        is_own: stock.is_own,
        before: stock.before,
    });
    let parts: Vec<_> = parts.collect();
    let weighted = Weighted::new(&parts, rest(stocks));
    let chosen: Vec<_> = chosen(stocks).into_iter().map(|one| one as u64).collect();
    (
        weighted.deviation(&chosen),
        weighted.deviation(&weighted.best()),
    )
}

fn any_stocks() -> impl Strategy<Value = Vec<Stock>> {
    let wanted = prop::option::of(0_u8..=20);
    let ready = prop_oneof![0_u32..6, 0_u32..60, 0_u32..400];
    let all = prop::collection::vec((wanted, ready), 1..6);
    (all, any::<bool>()).prop_map(|(all, has_own)| {
        let stocks = all.into_iter().zip(0..);
        let mut stocks: Vec<_> = stocks
            .map(|((wanted, ready), number)| Stock::new(number, wanted, ready))
            .collect();
        stocks[0].is_own = has_own;
        stocks
    })
}

/// Returns changes of one endpoint: provider, whether the endpoint comes, and seconds before it.
fn any_changes() -> impl Strategy<Value = Vec<(prop::sample::Index, bool, u64)>> {
    prop::collection::vec(
        (any::<prop::sample::Index>(), any::<bool>(), 0_u64..40),
        1..20,
    )
}

proptest! {
    #[test]
    fn shares_hold_and_nothing_flaps(
        mut stocks in any_stocks(),
        changes in any_changes(),
    ) {
        let (mut since, mut at) = (None, now());
        settle(&mut stocks, &mut since, at);
        for (which, grows, seconds) in changes {
            at = at.after(Duration::from_secs(seconds));
            let index = which.index(stocks.len());
            let before = stocks.clone();
            let stock = &mut stocks[index];
            if grows {
                let next = stock.endpoints.last().map_or((index as u32) << 16, |last| last + 1);
                stock.endpoints.push(next);
            } else {
                stock.endpoints.pop();
            }
            stock.rehash();
            let changed = settle(&mut stocks, &mut since, at);

            let ready = stocks.iter().any(|stock| !stock.endpoints.is_empty());
            prop_assert_eq!(chosen(&stocks).iter().sum::<usize>() > 0, ready);
            let (real, best) = deviations(&stocks);
            prop_assert!(!ready || real <= best + TOLERANCE, "{} {}", real, best);
            // Roles change only by the number by which that of the provider changes.
            for (stock, before) in stocks.iter().zip(&before) {
                let [now, then] = [stock.chosen(), before.chosen()];
                let here = |all: &[u32], one: &u32| all.contains(one);
                let entered = now.iter().filter(|one| !here(&then, one));
                let left = then.iter().filter(|one| !here(&now, one));
                let flips = entered.count() + left.count();
                let least = now.len().abs_diff(then.len());
                prop_assert!(flips <= least + 2, "{} of {}", flips, least);
            }
            // The cuts hold as they are.
            prop_assert_eq!(settle(&mut stocks, &mut since.clone(), at), 0);
            prop_assert!(changed <= stocks.len());
        }
    }
}

#[test]
fn changing_endpoints_move_few_cuts() {
    let mut stocks = stocks("10%:100 100 100 100 100 100 100 100 100 100");
    let (mut since, began) = (None, now());
    settle(&mut stocks, &mut since, began);
    let (mut state, mut moved, mut most) = (1_u64, 0, 0);
    let turns = 1000;
    for turn in 0..turns {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let index = (state >> 33) as usize % stocks.len();
        let stock = &mut stocks[index];
        match state >> 63 {
            0 => drop(stock.endpoints.pop()),
            _ => {
                let next = stock.endpoints.iter().max().map_or(0, |last| last + 1);
                stock.endpoints.push(next);
            }
        }
        stock.rehash();
        let changed = settle(
            &mut stocks,
            &mut since,
            began.after(Duration::from_secs(turn)),
        );
        moved += changed;
        most = most.max(changed);
    }
    assert!(moved <= 50, "{moved} cuts in {turns} changes");
    assert!(most <= 1, "{most}");
}
