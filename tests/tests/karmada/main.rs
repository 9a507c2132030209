//! causeway beside Karmada, as [`causeway_tests::karmada`] imitates it.

mod adopt;
mod alone;
mod carried;
mod churn;
mod environment;
mod leftovers;
mod load_balancer;
mod policy;
