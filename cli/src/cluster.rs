//! One API server: the connection, its kubeconfig, and objects that commands read and apply.

pub(crate) mod access;
pub(crate) mod admin_endpoint;
pub(crate) mod api_server;
pub(crate) mod bounded;
pub(crate) mod bundle;
pub(crate) mod cleanup;
pub(crate) mod conditions;
pub(crate) mod credentials;
pub(crate) mod definitions;
pub(crate) mod deployed;
pub(crate) mod helm;
pub(crate) mod identity;
pub(crate) mod images;
pub(crate) mod karmada;
pub(crate) mod kubeconfig;
pub(crate) mod lease;
pub(crate) mod objects;
pub(crate) mod random;
pub(crate) mod token;
pub(crate) mod tunnel;
pub(crate) mod wait;
