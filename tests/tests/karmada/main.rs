//! causeway beside Karmada, as [`causeway_tests::karmada`] imitates it.

mod adopt;
mod alone;
mod bed;
mod carried;
mod churn;
mod policy;
