//! Credentials of members whose Clusters are made of ClusterProfiles (KEP-4322): which provider
//! gives them, and how it is asked.

pub mod plugin;
pub mod providers;
