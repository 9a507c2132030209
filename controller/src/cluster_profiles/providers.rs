//! Providers of credentials for ClusterProfiles, as the file of `--clusterprofile-provider-file`
//! names them (KEP-4322, "Configuring plugins in the controller").

use std::collections::{BTreeMap, BTreeSet};

use causeway::api::SecretReference;
use causeway::api::cluster_profile::ClusterAccess;
use causeway_engine::model::{Failure, FailureKind, ProfileAccess};
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use super::plugin::PluginCall;

/// Maximum size of the file, in bytes.
pub const FILE_SIZE: u64 = 1024 * 1024;
/// Maximum number of providers in the file.
const PROVIDERS: usize = 64;

/// Commands that causeway carries out itself begin so.
const BUILT_IN: &str = "builtin:";
/// Flag of the plugin of Open Cluster Management.
const MANAGED_SERVICE_ACCOUNT: &str = "--managed-serviceaccount";
/// Variable by which a provider's Secrets are in another namespace.
const NAMESPACE: &str = "NAMESPACE";

/// Extension whose content a plugin receives (client.authentication.k8s.io).
const EXEC: &str = "client.authentication.k8s.io/exec";
/// Extensions by which a profile adds to a plugin's arguments and variables (KEP-5339).
const ARGS: &str = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args";
const ENVS: &str = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs";

/// Versions of the protocol that plugins speak.
const VERSIONS: [&str; 2] = [
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
];

/// Providers that the controller knows, the preferred first.
#[derive(Clone, Debug)]
pub struct Providers(Vec<Provider>);

#[derive(Clone, Debug)]
struct Provider {
    name: Box<str>,
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    /// The Secret of the cluster's name holds the token, as for the plugin `secretreader` of
    /// sigs.k8s.io/cluster-inventory-api.
    SecretReader { namespace: Option<String> },
    /// The Secret that Open Cluster Management writes beside the profile holds the token of that
    /// ManagedServiceAccount.
    ManagedServiceAccount {
        account: String,
        namespace: Option<String>,
    },
    /// A program gives it.
    Plugin(Plugin),
}

#[derive(Clone, Debug)]
struct Plugin {
    exec: ExecConfig,
    args: ArgsPolicy,
    env: EnvPolicy,
}

/// Source of the credentials for one ClusterProfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// The key `token` of a Secret.
    Secret {
        /// The Secret.
        secret: SecretReference,
        /// Whether the Secret must be owned by the profile; otherwise it bears the Cluster's name
        /// or label.
        is_owned: bool,
    },
    /// A program.
    Plugin(PluginCall),
}

/// Error of the file.
#[derive(Debug, Error)]
pub enum ProviderFileError {
    /// It is none of that format.
    #[error("it is not the JSON of KEP-4322: {0}")]
    Json(#[from] serde_json::Error),
    /// It has too many providers.
    #[error("it has {0} providers, and {PROVIDERS} are the most")]
    TooMany(usize),
    /// A provider cannot be used.
    #[error("provider {name:?}: {why}")]
    Provider {
        /// Its name.
        name: String,
        /// Cause.
        why: String,
    },
}

#[derive(Deserialize)]
struct File {
    providers: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    exec_config: Option<ExecConfig>,
    #[serde(default, rename = "profileSourcedCLIArgsPolicy")]
    args_policy: ArgsPolicy,
    #[serde(default, rename = "profileSourcedEnvVarsPolicy")]
    env_policy: EnvPolicy,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecConfig {
    api_version: Option<String>,
    command: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<Variable>>,
    #[serde(default)]
    provide_cluster_info: bool,
    #[serde(default)]
    interactive_mode: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Variable {
    name: String,
    #[serde(default)]
    value: String,
}

/// Treatment of the arguments that a profile adds.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum ArgsPolicy {
    #[default]
    #[serde(alias = "")]
    Ignore,
    Append,
}

/// Treatment of the variables that a profile adds.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum EnvPolicy {
    #[default]
    #[serde(alias = "")]
    Ignore,
    AppendIfNotExists,
    Replace,
}

impl Default for Providers {
    /// Returns the providers that need no program, under the names that their cluster managers use;
    /// the ManagedServiceAccount is `causeway`.
    fn default() -> Self {
        let reader = Way::SecretReader { namespace: None };
        let managed = Way::ManagedServiceAccount {
            account: "causeway".to_owned(),
            namespace: None,
        };
        Self(vec![
            Provider {
                name: "secretreader".into(),
                way: reader,
            },
            Provider {
                name: "open-cluster-management".into(),
                way: managed,
            },
        ])
    }
}

impl Providers {
    /// Reads the file.
    ///
    /// # Errors
    /// [`ProviderFileError`] names the provider and what is wrong with it.
    pub fn read(text: &[u8]) -> Result<Self, ProviderFileError> {
        let file: File = serde_json::from_slice(text)?;
        if file.providers.len() > PROVIDERS {
            return Err(ProviderFileError::TooMany(file.providers.len()));
        }
        let mut names = BTreeSet::new();
        let providers = file.providers.into_iter().map(|entry| {
            let name = entry.name.clone();
            let way = match names.insert(name.clone()) {
                true => entry.way(),
                false => Err("another provider has the same name".to_owned()),
            };
            match way {
                Ok(way) => Ok(Provider {
                    name: name.into(),
                    way,
                }),
                Err(why) => Err(ProviderFileError::Provider { name, why }),
            }
        });
        Ok(Self(providers.collect::<Result<_, _>>()?))
    }

    /// Returns their names, the preferred first.
    pub fn names(&self) -> Vec<Box<str>> {
        self.0
            .iter()
            .map(|provider| provider.name.clone())
            .collect()
    }

    /// Returns the source of the credentials for a profile of that namespace. `secrets` is the
    /// namespace of the members' Secrets.
    ///
    /// # Errors
    /// [`Failure`] if the profile lacks what its provider needs, or adds what cannot be used.
    pub fn source(
        &self,
        access: &ProfileAccess,
        namespace: &str,
        secrets: &str,
    ) -> Result<CredentialSource, Failure> {
        let mut all = self.0.iter();
        let provider = all.find(|provider| provider.name == access.provider);
        let unknown = || invalid("causeway-controller does not know it");
        let config = access.address.extension(EXEC);
        let named = || -> Result<&str, Failure> {
            let Some(config) = config else {
                return Ok(access.cluster.as_str());
            };
            let name = config["clusterName"].as_str();
            name.ok_or_else(|| invalid(format!("its extension {EXEC} names no clusterName")))
        };
        let secret = |namespace: &str, name: String, is_owned| CredentialSource::Secret {
            secret: SecretReference {
                namespace: namespace.to_owned(),
                name,
            },
            is_owned,
        };
        Ok(match &provider.ok_or_else(unknown)?.way {
            Way::SecretReader { namespace } => {
                let namespace = namespace.as_deref().unwrap_or(secrets);
                secret(namespace, named()?.to_owned(), false)
            }
            Way::ManagedServiceAccount {
                account,
                namespace: other,
            } => {
                let namespace = other.as_deref().unwrap_or(namespace);
                secret(namespace, format!("{}-{account}", named()?), true)
            }
            Way::Plugin(plugin) => CredentialSource::Plugin(plugin.call(&access.address, config)?),
        })
    }
}

impl Entry {
    fn way(self) -> Result<Way, String> {
        if self.name.is_empty() {
            return Err("it has no name".to_owned());
        }
        let exec = self.exec_config.ok_or("it has no execConfig")?;
        if let Some(built_in) = exec.command.clone().strip_prefix(BUILT_IN) {
            return exec.built_in(built_in);
        }
        let version = exec.api_version.as_deref().unwrap_or_default();
        if !VERSIONS.contains(&version) {
            let versions = VERSIONS.join(" and ");
            return Err(format!(
                "execConfig.apiVersion {version:?} is not known; there are {versions}"
            ));
        }
        if exec.interactive_mode == "Always" {
            return Err("execConfig.interactiveMode is Always, and there is nobody to ask".into());
        }
        if exec.command.is_empty() {
            return Err("execConfig.command is empty".to_owned());
        }
        Ok(Way::Plugin(Plugin {
            exec,
            args: self.args_policy,
            env: self.env_policy,
        }))
    }
}

impl ExecConfig {
    fn built_in(self, name: &str) -> Result<Way, String> {
        let mut env = self.env.into_iter().flatten();
        let namespace = env.find(|variable| variable.name == NAMESPACE);
        let namespace = namespace.map(|variable| variable.value);
        match name {
            "secretreader" => Ok(Way::SecretReader { namespace }),
            "managed-serviceaccount" => {
                let args = self.args.unwrap_or_default();
                let flag = args
                    .iter()
                    .find_map(|arg| arg.strip_prefix(MANAGED_SERVICE_ACCOUNT)?.strip_prefix('='));
                let account = flag.filter(|account| !account.is_empty());
                let account = account.ok_or_else(|| {
                    format!("execConfig.args lacks {MANAGED_SERVICE_ACCOUNT}=NAME")
                })?;
                Ok(Way::ManagedServiceAccount {
                    account: account.to_owned(),
                    namespace,
                })
            }
            other => Err(format!(
                "{BUILT_IN}{other} is not known; there are {BUILT_IN}secretreader and \
                 {BUILT_IN}managed-serviceaccount"
            )),
        }
    }
}

impl Plugin {
    /// Returns the call for one profile. What a profile adds goes into that call alone.
    fn call(&self, address: &ClusterAccess, config: Option<&Value>) -> Result<PluginCall, Failure> {
        let mut args = self.exec.args.clone().unwrap_or_default();
        if let (ArgsPolicy::Append, Some(more)) = (self.args, address.extension(ARGS)) {
            let more: Vec<String> = added(more, ARGS)?;
            args.extend(more);
        }
        let own = self.exec.env.iter().flatten();
        let own = own.map(|variable| (variable.name.clone(), variable.value.clone()));
        let mut env: BTreeMap<String, String> = own.collect();
        let more: BTreeMap<String, String> = match (self.env, address.extension(ENVS)) {
            (EnvPolicy::Ignore, _) | (_, None) => BTreeMap::new(),
            (_, Some(more)) => added(more, ENVS)?,
        };
        for (name, value) in more {
            match self.env {
                EnvPolicy::Replace => drop(env.insert(name, value)),
                _ => drop(env.entry(name).or_insert(value)),
            }
        }
        let api_version = self.exec.api_version.clone().unwrap_or_default();
        let mut spec = json!({"interactive": false});
        if self.exec.provide_cluster_info {
            let mut cluster = json!(ClusterAccess {
                extensions: None,
                ..address.clone()
            });
            if let Some(config) = config {
                cluster["config"] = config.clone();
            }
            spec["cluster"] = cluster;
        }
        let request = json!({"apiVersion": api_version, "kind": "ExecCredential", "spec": spec});
        Ok(PluginCall {
            command: self.exec.command.clone(),
            args,
            env,
            api_version,
            request: request.to_string(),
        })
    }
}

fn added<T: for<'a> Deserialize<'a>>(value: &Value, extension: &str) -> Result<T, Failure> {
    let read = T::deserialize(value);
    read.map_err(|why| invalid(format!("its extension {extension} cannot be read: {why}")))
}

fn invalid(text: impl AsRef<str>) -> Failure {
    Failure::new(FailureKind::Invalid, text)
}

#[cfg(test)]
mod tests {
    use causeway::api::ClusterProfile;
    use causeway_engine::model::Profile;

    use super::*;

    /// Returns the access of a profile that offers one provider with these extensions.
    fn access(provider: &str, extensions: Value) -> ProfileAccess {
        let profile: ClusterProfile = serde_json::from_value(json!({
            "metadata": {"namespace": "fleet", "name": "edge"},
            "spec": {},
            "status": {"accessProviders": [{"name": provider, "cluster": {
                "server": "https://edge.example",
                "certificate-authority-data": "YWJj",
                "extensions": extensions,
            }}]},
        }))
        .expect("a ClusterProfile");
        Profile::read(&profile, &[provider.into()])
            .access
            .expect("a way")
    }

    fn read(entry: Value) -> Result<Providers, String> {
        let file = json!({"providers": [entry]}).to_string();
        Providers::read(file.as_bytes()).map_err(|error| error.to_string())
    }

    fn plugin(policies: Value) -> Providers {
        let mut entry = json!({"name": "p", "execConfig": {
            "apiVersion": VERSIONS[0],
            "command": "/plugins/p",
            "args": ["own"],
            "env": [{"name": "OWN", "value": "1"}],
            "provideClusterInfo": true,
        }});
        json_merge(&mut entry, policies);
        read(entry).expect("a provider")
    }

    fn json_merge(entry: &mut Value, more: Value) {
        for (key, value) in more.as_object().expect("an object") {
            entry[key] = value.clone();
        }
    }

    fn call(providers: &Providers, extensions: Value) -> Result<PluginCall, String> {
        match providers.source(&access("p", extensions), "fleet", "secrets") {
            Ok(CredentialSource::Plugin(call)) => Ok(call),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => Err(failure.to_string()),
        }
    }

    #[test]
    fn a_plugin_receives_the_cluster_and_its_extension() {
        let config = json!({"clusterName": "edge"});
        let call = call(
            &plugin(json!({})),
            json!([{"name": EXEC, "extension": config}]),
        )
        .unwrap();
        let request: Value = serde_json::from_str(&call.request).unwrap();
        assert_eq!(
            request,
            json!({
                "apiVersion": "client.authentication.k8s.io/v1",
                "kind": "ExecCredential",
                "spec": {"interactive": false, "cluster": {
                    "server": "https://edge.example",
                    "certificate-authority-data": "YWJj",
                    "config": {"clusterName": "edge"},
                }},
            })
        );
    }

    #[test]
    fn a_profile_adds_to_its_own_call_what_the_policy_allows() {
        let extensions = json!([
            {"name": ARGS, "extension": ["more"]},
            {"name": ENVS, "extension": {"OWN": "2", "MORE": "3"}},
        ]);
        for (policies, args, env) in [
            (json!({}), vec!["own"], "OWN=1"),
            (
                json!({"profileSourcedCLIArgsPolicy": "Ignore"}),
                vec!["own"],
                "OWN=1",
            ),
            (
                json!({"profileSourcedCLIArgsPolicy": "Append"}),
                vec!["own", "more"],
                "OWN=1",
            ),
            (
                json!({"profileSourcedEnvVarsPolicy": "AppendIfNotExists"}),
                vec!["own"],
                "MORE=3 OWN=1",
            ),
            (
                json!({"profileSourcedEnvVarsPolicy": "Replace"}),
                vec!["own"],
                "MORE=3 OWN=2",
            ),
        ] {
            let providers = plugin(policies.clone());
            // One profile's additions must not reach the next one's call.
            for _ in 0..2 {
                let call = call(&providers, extensions.clone()).unwrap();
                let pairs = call
                    .env
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"));
                assert_eq!(call.args, args, "{policies}");
                assert_eq!(pairs.collect::<Vec<_>>().join(" "), env, "{policies}");
            }
        }
        let bad = json!([{"name": ARGS, "extension": "text"}]);
        let appended = plugin(json!({"profileSourcedCLIArgsPolicy": "Append"}));
        assert!(call(&appended, bad).unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn built_in_providers_read_secrets() {
        let built_in = |command: &str, args: Value, env: Value| {
            read(json!({"name": "p", "execConfig": {"command": command, "args": args, "env": env}}))
                .expect("a provider")
        };
        let named = json!([{"name": EXEC, "extension": {"clusterName": "other"}}]);
        let account = json!(["--managed-serviceaccount=admin"]);
        let elsewhere = json!([{"name": "NAMESPACE", "value": "elsewhere"}]);
        let reader = "builtin:secretreader";
        let managed = "builtin:managed-serviceaccount";
        for (providers, extensions, secret, owned) in [
            (
                built_in(reader, json!(null), json!(null)),
                json!([]),
                "secrets/edge",
                false,
            ),
            (
                built_in(reader, json!(null), json!(null)),
                named.clone(),
                "secrets/other",
                false,
            ),
            (
                built_in(reader, json!([]), elsewhere),
                json!([]),
                "elsewhere/edge",
                false,
            ),
            (
                built_in(managed, account, json!([])),
                named,
                "fleet/other-admin",
                true,
            ),
        ] {
            let source = providers.source(&access("p", extensions), "fleet", "secrets");
            let Ok(CredentialSource::Secret {
                secret: found,
                is_owned,
            }) = source
            else {
                panic!("{source:?}")
            };
            assert_eq!(format!("{}/{}", found.namespace, found.name), secret);
            assert_eq!(is_owned, owned, "{secret}");
        }
        let nameless = json!([{"name": EXEC, "extension": {}}]);
        let reader = built_in(reader, json!(null), json!(null));
        let error = reader.source(&access("p", nameless), "fleet", "secrets");
        assert!(
            error
                .unwrap_err()
                .to_string()
                .contains("names no clusterName")
        );
    }

    #[test]
    fn a_file_that_cannot_be_used_says_which_provider_and_why() {
        let exec = |fields: Value| {
            let mut exec = json!({"apiVersion": VERSIONS[0], "command": "/p"});
            json_merge(&mut exec, fields);
            json!({"name": "p", "execConfig": exec})
        };
        for (entry, why) in [
            (json!({"name": "p"}), "provider \"p\": it has no execConfig"),
            (
                exec(json!({"apiVersion": "v2"})),
                "execConfig.apiVersion \"v2\" is not known",
            ),
            (
                exec(json!({"interactiveMode": "Always"})),
                "there is nobody to ask",
            ),
            (exec(json!({"command": ""})), "execConfig.command is empty"),
            (
                exec(json!({"command": "builtin:google"})),
                "builtin:google is not known",
            ),
            (
                exec(json!({"command": "builtin:managed-serviceaccount"})),
                "lacks --managed-serviceaccount=NAME",
            ),
            (json!({"name": ""}), "it has no name"),
            (
                json!({"name": "p", "profileSourcedCLIArgsPolicy": "Prepend"}),
                "unknown variant `Prepend`",
            ),
        ] {
            let error = read(entry).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let twice = json!({"providers": [exec(json!({})), exec(json!({}))]}).to_string();
        let error = Providers::read(twice.as_bytes()).unwrap_err().to_string();
        assert!(
            error.contains("another provider has the same name"),
            "{error}"
        );
        assert_eq!(
            Providers::default().names(),
            ["secretreader".into(), "open-cluster-management".into()]
        );
    }
}
