//! Kubeconfigs, read like kubectl (`k8s.io/client-go/tools/clientcmd`).

mod members;
mod plugin;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{env, fs};

pub(crate) use causeway::kubeconfig::Access;
use causeway::kubeconfig::AccessError;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

pub(crate) use self::members::{MemberContext, MemberKubeconfigs};
pub(crate) use self::plugin::describe as describe_plugin_failure;

/// Invalid or missing kubeconfig.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("{files}: {why}")]
    Unusable { files: String, why: String },
    /// No file exists. In-cluster credentials count only if neither KUBECONFIG nor the default
    /// file exists.
    #[error("{why}")]
    Absent { why: String, in_cluster: bool },
}

/// Merged content of kubeconfig files.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub kubeconfig: Kubeconfig,
    files: Vec<PathBuf>,
}

/// Reads the given file, or the files of KUBECONFIG, or `~/.kube/config`.
pub(crate) fn load(given: Option<&Path>) -> Result<Loaded, LoadError> {
    match given {
        Some(path) => read(vec![path.to_owned()], None),
        None => load_default(env::var_os("KUBECONFIG"), env::home_dir()),
    }
}

fn load_default(variable: Option<OsString>, home: Option<PathBuf>) -> Result<Loaded, LoadError> {
    let listed = variable.iter().flat_map(env::split_paths);
    let listed: Vec<_> = listed.filter(|path| !path.as_os_str().is_empty()).collect();
    if !listed.is_empty() {
        return read(listed, Some(false));
    }
    let default = home.unwrap_or_default().join(".kube").join("config");
    read(vec![default], Some(true))
}

/// Merges the files. `Some` in `skip` allows missing files, and its value is `in_cluster` of the
/// error if all files are missing.
fn read(paths: Vec<PathBuf>, skip: Option<bool>) -> Result<Loaded, LoadError> {
    let (mut kubeconfig, mut files) = (Kubeconfig::default(), Vec::new());
    for path in &paths {
        let why = match Kubeconfig::read_from(path) {
            Ok(mut next) => {
                drop_blanks(&mut next);
                files.push(path.clone());
                kubeconfig = kubeconfig
                    .merge(next)
                    .map_err(|error| unusable(&files, reason(&error)))?;
                continue;
            }
            Err(KubeconfigError::ReadConfig(error, _))
                if skip.is_some() && error.kind() == ErrorKind::NotFound =>
            {
                continue;
            }
            Err(error) => reason(&error),
        };
        return Err(unusable(std::slice::from_ref(path), why));
    }
    match skip {
        Some(in_cluster) if files.is_empty() => Err(LoadError::Absent {
            why: format!("{} does not exist", names(&paths)),
            in_cluster,
        }),
        _ => Ok(Loaded { kubeconfig, files }),
    }
}

impl Loaded {
    /// Returns the connection of the selected context, cluster and user.
    pub(crate) fn access(self, options: &KubeConfigOptions) -> Result<Access, LoadError> {
        let Self { kubeconfig, files } = self;
        // The client would use no credentials for an unknown user.
        if let Some(user) = &options.user
            && !kubeconfig.auth_infos.iter().any(|one| one.name == *user)
        {
            return Err(unusable(&files, format!("user {user:?} does not exist")));
        }
        let access = causeway::kubeconfig::access(&kubeconfig, options);
        let mut access = access.map_err(|error| {
            let why = match &error {
                AccessError::Kubeconfig(error) => reason(error),
                error => error.to_string(),
            };
            unusable(&files, why)
        })?;
        trim_token(&mut access.config).map_err(|why| unusable(&files, why))?;
        Ok(access)
    }
}

/// Drops empty values, which client-go treats as absent.
fn drop_blanks(kubeconfig: &mut Kubeconfig) {
    let drop_blank = |value: &mut Option<String>| {
        value.take_if(|value| value.is_empty());
    };
    drop_blank(&mut kubeconfig.current_context);
    let clusters = kubeconfig.clusters.iter_mut();
    for cluster in clusters.filter_map(|one| one.cluster.as_mut()) {
        drop_blank(&mut cluster.server);
        drop_blank(&mut cluster.proxy_url);
        drop_blank(&mut cluster.tls_server_name);
        drop_blank(&mut cluster.certificate_authority);
        drop_blank(&mut cluster.certificate_authority_data);
    }
    let users = kubeconfig.auth_infos.iter_mut();
    for user in users.filter_map(|one| one.auth_info.as_mut()) {
        drop_blank(&mut user.token_file);
        drop_blank(&mut user.client_certificate);
        drop_blank(&mut user.client_certificate_data);
        drop_blank(&mut user.client_key);
    }
    let contexts = kubeconfig.contexts.iter_mut();
    for context in contexts.filter_map(|one| one.context.as_mut()) {
        drop_blank(&mut context.namespace);
    }
}

/// Replaces a token file with its token if the token has surrounding whitespace. The client rereads
/// all other token files every minute.
fn trim_token(config: &mut Config) -> Result<(), String> {
    let Some(path) = config.auth_info.token_file.clone() else {
        return Ok(());
    };
    let text = fs::read_to_string(&path).map_err(|why| format!("token file {path}: {why}"))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(format!("token file {path} is empty"));
    }
    if token.len() < text.len() {
        config.auth_info.token_file = None;
        config.auth_info.token = Some(token.to_owned().into());
    } else {
        // The file takes precedence over an inline token, as in client-go.
        config.auth_info.token = None;
    }
    Ok(())
}

fn reason(error: &KubeconfigError) -> String {
    match error {
        // A snippet could contain credentials.
        KubeconfigError::Parse(error) => format!("invalid YAML: {}", error.without_snippet()),
        KubeconfigError::ReadConfig(error, _) => error.to_string(),
        KubeconfigError::CurrentContextNotSet => "current-context is not set".to_owned(),
        KubeconfigError::LoadContext(name) => format!("context {name:?} does not exist"),
        KubeconfigError::LoadClusterOfContext(name) => format!("cluster {name:?} does not exist"),
        error => error.to_string(),
    }
}

fn unusable(files: &[PathBuf], why: String) -> LoadError {
    let files = names(files);
    LoadError::Unusable { files, why }
}

fn names(files: &[PathBuf]) -> String {
    let files: Vec<_> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    files.join(", ")
}

#[cfg(test)]
mod tests;
