use tempfile::TempDir;

use super::*;
use crate::cluster::access::Side;
use crate::cluster::api_server::ApiServer;

struct Directory(TempDir);

impl Directory {
    fn new() -> Self {
        Self(TempDir::new().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("a file");
        path
    }

    /// Writes a kubeconfig whose context, cluster and user have the given name.
    fn kubeconfig(&self, name: &str, current: &str, user: &str) -> PathBuf {
        let text = format!(
            "current-context: '{current}'\n\
             contexts: [{{name: {name}, context: {{cluster: {name}, user: {name}}}}}]\n\
             clusters: [{{name: {name}, cluster: {{server: 'https://{name}'}}}}]\n\
             users: [{{name: {name}, user: {user}}}]\n"
        );
        self.write(name, &text)
    }
}

fn list(paths: &[PathBuf]) -> Option<OsString> {
    Some(env::join_paths(paths).expect("a list"))
}

fn host(variable: Option<OsString>, context: Option<&str>) -> Result<String, String> {
    let loaded = load_default(variable, None).map_err(|error| error.to_string())?;
    let options = KubeConfigOptions {
        context: context.map(ToOwned::to_owned),
        ..KubeConfigOptions::default()
    };
    let access = loaded.access(&options);
    let url = access
        .map_err(|error| error.to_string())?
        .config
        .cluster_url;
    Ok(url.host().unwrap_or_default().to_owned())
}

/// Returns the connection of the current context.
fn access(path: &Path) -> Result<Access, LoadError> {
    let loaded = load(Some(path)).expect("a kubeconfig");
    loaded.access(&KubeConfigOptions::default())
}

#[test]
fn missing_files_of_kubeconfig_are_skipped() {
    let directory = Directory::new();
    let (missing, blank) = (directory.path("missing"), directory.write("blank", ""));
    let (a, b) = (
        directory.kubeconfig("a", "", "{}"),
        directory.kubeconfig("b", "b", "{}"),
    );
    let all = list(&[missing.clone(), blank, a, b]);
    assert_eq!(host(all.clone(), None), Ok("b".to_owned()));
    assert_eq!(host(all, Some("a")), Ok("a".to_owned()));

    // Missing files in KUBECONFIG never select the in-cluster configuration.
    match load_default(list(&[missing]), None) {
        Err(LoadError::Absent { why, in_cluster }) => {
            assert!(
                !in_cluster && why.contains("missing does not exist"),
                "{why}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn in_cluster_counts_only_without_any_kubeconfig() {
    let directory = Directory::new();
    let home = || Some(directory.0.path().to_owned());
    for variable in [None, Some(OsString::new()), Some(OsString::from(":"))] {
        match load_default(variable, home()) {
            Err(LoadError::Absent { why, in_cluster }) => assert!(in_cluster, "{why}"),
            other => panic!("{other:?}"),
        }
    }
    fs::create_dir(directory.path(".kube")).expect("a directory");
    directory.write(".kube/config", "contexts: {");
    let error = load_default(None, home()).expect_err("broken");
    assert!(matches!(error, LoadError::Unusable { .. }), "{error}");
}

#[test]
fn unusable_kubeconfigs_are_errors_that_name_the_file() {
    let directory = Directory::new();
    let broken = directory.write("broken", "users: [{name: a, user: {token: hunter2}]\n");
    let good = directory.kubeconfig("good", "good", "{}");
    let none = directory.kubeconfig("none", "", "{}");
    for (files, context, words) in [
        (vec![broken.clone()], None, ["broken: ", "YAML"]),
        (vec![good.clone(), broken], None, ["broken: ", "YAML"]),
        (
            vec![good],
            Some("other"),
            ["good: ", "context \"other\" does not exist"],
        ),
        (vec![none], None, ["none: ", "current-context is not set"]),
    ] {
        let error = host(list(&files), context).expect_err("unusable");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let error = load(Some(&directory.path("missing"))).expect_err("missing");
    let error = error.to_string();
    assert!(error.contains("missing: No such file"), "{error}");
}

#[tokio::test]
async fn token_files_may_end_in_white_space() {
    let directory = Directory::new();
    let with = |token: &str| {
        directory.write("token", token);
        access(&directory.kubeconfig("a", "a", "{tokenFile: token, token: inline}"))
    };
    let trimmed = with(" abc\n").expect("a token").config;
    ApiServer::new(Side::Hub, trimmed).expect("a client");
    let plain = with("abc").expect("a token").config.auth_info;
    assert!(
        plain.token.is_none() && plain.token_file.is_some(),
        "the file is read again"
    );
    let error = with("\n").expect_err("no token").to_string();
    assert!(error.contains("token is empty"), "{error}");
}

#[tokio::test]
async fn output_of_a_credential_plugin_is_never_shown() {
    let directory = Directory::new();
    for (script, words) in [
        ("echo hunter2; echo why >&2; exit 3", "exit status: 3: why"),
        ("echo hunter2", "no valid ExecCredential"),
    ] {
        let plugin = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, \
             interactiveMode: Never, args: ['-c', '{script}'], \
             env: [{{name: SECRET, value: hunter2}}]}}}}"
        );
        let access = access(&directory.kubeconfig("a", "a", &plugin));
        let config = access.expect("a context").config;
        let Err(error) = ApiServer::new(Side::Hub, config) else {
            panic!("{script}: the plugin gave no credentials");
        };
        let error = error.to_string();
        assert!(error.contains("credential plugin sh"), "{error}");
        assert!(error.contains(words), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn only_the_kubeconfigs_proxy_is_kept_apart() {
    let directory = Directory::new();
    let text = "current-context: a\n\
                contexts: [{name: a, context: {cluster: a, user: a}}]\n\
                clusters: [{name: a, cluster: {server: 'https://a', proxy-url: 'http://proxy:1'}}]\n";
    let with = directory.write("with", text);
    let without = directory.write("without", &text.replace("http://proxy:1", ""));
    for (path, expected) in [(with, Some("http://proxy:1")), (without, None)] {
        let access = access(&path).expect("a context");
        assert_eq!(access.proxy_url.as_deref(), expected);
    }
}

#[test]
fn cluster_and_user_are_chosen_beside_the_context() {
    const FILE: &str = "
apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: here, context: {cluster: here, user: own}}
clusters:
- {name: here, cluster: {server: https://here.example}}
- {name: there, cluster: {server: https://there.example, proxy-url: http://proxy.example:1}}
users:
- {name: own, user: {username: own}}
- {name: other, user: {username: other}}
";
    let directory = Directory::new();
    let path = directory.write("config", FILE);
    let access = |cluster: Option<&str>, user: Option<&str>| {
        let options = KubeConfigOptions {
            cluster: cluster.map(ToOwned::to_owned),
            user: user.map(ToOwned::to_owned),
            ..KubeConfigOptions::default()
        };
        let loaded = load(Some(&path)).expect("a kubeconfig");
        let access = loaded.access(&options);
        access.map_err(|error| error.to_string())
    };
    for (cluster, user, host, proxy, name) in [
        (None, None, "here.example", None, "own"),
        (
            Some("there"),
            None,
            "there.example",
            Some("http://proxy.example:1"),
            "own",
        ),
        (None, Some("other"), "here.example", None, "other"),
    ] {
        let access = access(cluster, user).expect("a connection");
        assert_eq!(access.config.cluster_url.host(), Some(host));
        assert_eq!(access.proxy_url.as_deref(), proxy);
        assert_eq!(access.config.auth_info.username.as_deref(), Some(name));
    }
    for (cluster, user, why) in [
        (Some("nowhere"), None, "cluster \"nowhere\" does not exist"),
        (None, Some("nobody"), "user \"nobody\" does not exist"),
    ] {
        let error = access(cluster, user).expect_err("not there");
        assert!(error.ends_with(why), "{error}");
    }
}
