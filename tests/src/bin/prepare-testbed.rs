//! Builds the testbed where it is not built yet, and says what of the tests this machine will skip.

use causeway_tests::binaries::{self, Testbed};
use causeway_tests::{external_dns, network, prometheus};

fn main() {
    let kubectl = Testbed::get().program("kubectl");
    println!("testbed: {}", kubectl.with_file_name("").display());
    println!("helm: {}", binaries::helm().display());
    match network::prerequisites() {
        Ok(()) => println!("real packets: yes"),
        Err(missing) => println!("real packets: skipped; {missing}"),
    }
    match network::dig() {
        Ok(()) => println!("names of the clusterset: yes"),
        Err(missing) => println!("names of the clusterset: skipped; {missing}"),
    }
    match external_dns::prerequisites() {
        Ok(()) => println!("names in BIND: by {}", binaries::external_dns().display()),
        Err(missing) => println!("names in BIND: skipped; {missing}"),
    }
    match prometheus::prerequisites() {
        Ok(_) => println!("alerts in a Prometheus: yes"),
        Err(missing) => println!("alerts in a Prometheus: skipped; {missing}"),
    }
}
