#![no_main]

use causeway_properties::{decoding, mutation};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

/// One mutation in so many is libFuzzer's own, of bytes.
const BYTES_ONE_IN: u64 = 3;

fuzz_target!(|data: &[u8]| decoding::holds(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    match mutation::mutate(&data[..size], max_size, u64::from(seed), BYTES_ONE_IN) {
        Some(text) => {
            data[..text.len()].copy_from_slice(&text);
            text.len()
        }
        None => fuzzer_mutate(data, size, max_size),
    }
});
