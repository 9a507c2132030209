//! Members whose Clusters are made of ClusterProfiles: their address is the profile's, not the
//! Cluster's, and a provider gives their token.

use std::collections::BTreeSet;

use causeway::api;
use causeway::domain::ClusterName;
use causeway::target::{self, Target, Token};
use causeway_engine::model::{ConfigurationError, Profile, ProfileAccess, ProfileId, Signal};
use k8s_openapi::api::core::v1::Secret;

use super::{Credentials, Fleet, Listing, invalid};
use crate::cluster_profiles::providers::CredentialSource;
use crate::credentials::Call;

impl Fleet {
    /// Notes what the hub says of the ClusterProfiles of a namespace; returns the members to
    /// reconsider. A profile that is gone stays known while there is a Cluster of it, so that the
    /// member can be cleaned.
    pub fn note_profiles(
        &mut self,
        namespace: &str,
        signal: &Signal<Profile>,
    ) -> BTreeSet<ClusterName> {
        match signal {
            Signal::Listed(profiles) => {
                let known = self.profiles.keys();
                let former = known.filter(|id| *id.namespace == *namespace);
                let former: Vec<_> = former.cloned().collect();
                former.into_iter().for_each(|id| self.drop_profile(id));
                profiles
                    .iter()
                    .for_each(|profile| self.put_profile(profile));
                self.note_profiles_listed(namespace)
            }
            Signal::Applied(profile) => {
                self.put_profile(profile);
                let cluster = self.clusters.get_key_value(&*profile.id.name);
                let made = cluster.filter(|(_, one)| profile_id(one).as_ref() == Some(&profile.id));
                made.into_iter().map(|(name, _)| name.clone()).collect()
            }
            Signal::Deleted(profile) => {
                self.drop_profile(profile.id.clone());
                BTreeSet::new()
            }
            Signal::Failed(failure) => {
                let listing = self.profile_namespaces.get_mut(namespace);
                match listing.is_some_and(|listing| listing.note_failure(failure.clone())) {
                    true => self.made_in(namespace),
                    false => BTreeSet::new(),
                }
            }
            Signal::Connected => {
                let listing = self.profile_namespaces.get_mut(namespace);
                match listing.is_some_and(Listing::note_connected) {
                    true => self.made_in(namespace),
                    false => BTreeSet::new(),
                }
            }
            _ => BTreeSet::new(),
        }
    }

    fn put_profile(&mut self, profile: &Profile) {
        self.gone_profiles.remove(&profile.id);
        self.profiles.insert(profile.id.clone(), profile.clone());
    }

    fn drop_profile(&mut self, id: ProfileId) {
        let cluster = self.clusters.get(&*id.name);
        match cluster.and_then(profile_id) == Some(id.clone()) {
            true => drop(self.gone_profiles.insert(id)),
            false => drop(self.profiles.remove(&id)),
        }
    }

    /// Notes that the ClusterProfiles of a namespace are not awaited any more: they were listed, or
    /// the hub serves none. Returns the members to reconsider.
    pub fn note_profiles_listed(&mut self, namespace: &str) -> BTreeSet<ClusterName> {
        self.profile_namespaces
            .insert(namespace.to_owned(), Listing::LISTED);
        self.made_in(namespace)
    }

    fn made_in(&self, namespace: &str) -> BTreeSet<ClusterName> {
        let made = self
            .clusters
            .iter()
            .filter(|(_, cluster)| cluster.profile_namespace() == Some(namespace));
        made.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the profile that a Cluster was made of, and its way to the member.
    pub(super) fn profile_of(
        &self,
        cluster: &api::Cluster,
    ) -> Option<Result<(&Profile, &ProfileAccess), ConfigurationError>> {
        let id = profile_id(cluster)?;
        let unknown = || ConfigurationError::ProfileUnknown(id.namespace.to_string());
        let profile = self.profiles.get(&id).ok_or_else(unknown);
        Some(profile.and_then(|profile| match &profile.access {
            Ok(access) => Ok((profile, access)),
            Err(problem) => Err(ConfigurationError::ProfileUnusable(problem.clone())),
        }))
    }

    /// Returns the source of the credentials of a member, by its profile.
    pub(super) fn source(
        &self,
        profile: &Profile,
        access: &ProfileAccess,
    ) -> Result<CredentialSource, ConfigurationError> {
        let Credentials {
            providers,
            secret_namespaces,
            ..
        } = &self.credentials;
        let secrets = secret_namespaces.first().map_or("", String::as_str);
        let source = providers.source(access, &profile.id.namespace, secrets);
        source.map_err(|failure| ConfigurationError::NoCredentials {
            provider: access.provider.to_string(),
            failure,
        })
    }

    /// Returns the connection data of a member by its profile; `None` while its credentials are
    /// awaited.
    pub(super) fn profile_target(
        &mut self,
        cluster: &api::Cluster,
    ) -> Result<Option<(Target, Token)>, ConfigurationError> {
        let (profile, access) = match self.profile_of(cluster).transpose() {
            Ok(Some((profile, access))) => (profile.clone(), access.clone()),
            Ok(None) => return Ok(None),
            Err(ConfigurationError::ProfileUnknown(namespace)) => {
                return match self.profile_namespaces.get(&namespace) {
                    Some(Listing::Awaited | Listing::Listed { is_failing: true }) => Ok(None),
                    Some(Listing::Listed { is_failing: false }) | None => {
                        Err(ConfigurationError::ProfileUnknown(namespace))
                    }
                    Some(Listing::Unreadable(failure)) => {
                        Err(ConfigurationError::ProfilesUnreadable {
                            failure: failure.clone(),
                            namespace,
                        })
                    }
                };
            }
            Err(error) => return Err(error),
        };
        let unusable = |problem| ConfigurationError::ProfileUnusable(Clone::clone(problem));
        let spec = profile.spec().map_err(unusable)?;
        let name = access.cluster.clone();
        let allow_insecure = self.credentials.allow_insecure;
        let target = Target::of_profile(name, &spec, &access.address, allow_insecure);
        let target = target.map_err(invalid)?;
        let token = match self.source(&profile, &access)? {
            CredentialSource::Secret { secret, is_owned } => {
                let Some(secret) =
                    self.read_secret(&secret, || ConfigurationError::NoProfileSecret {
                        provider: access.provider.to_string(),
                        namespace: secret.namespace.clone(),
                        name: secret.name.clone(),
                        exists: false,
                    })?
                else {
                    return Ok(None);
                };
                Some(token(secret, is_owned, &profile, &access)?)
            }
            CredentialSource::Plugin(call) => {
                let given = self.renewed(&access.cluster, Call::Plugin(call));
                let given = given.transpose();
                let given = given.map_err(|failure| ConfigurationError::NoCredentials {
                    provider: access.provider.to_string(),
                    failure,
                })?;
                given.map(|given| given.token)
            }
        };
        Ok(token.map(|token| (target, token)))
    }
}

/// Returns the ClusterProfile that a Cluster was made of, if it was made of one.
pub(super) fn profile_id(cluster: &api::Cluster) -> Option<ProfileId> {
    Some(ProfileId {
        name: cluster.metadata.name.as_deref()?.into(),
        namespace: cluster.profile_namespace()?.into(),
    })
}

/// Reads the token of a Secret that is the profile's: by its owner, or by the name or label of the
/// Cluster.
fn token(
    secret: &Secret,
    is_owned: bool,
    profile: &Profile,
    access: &ProfileAccess,
) -> Result<Token, ConfigurationError> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut owners = secret.metadata.owner_references.iter().flatten();
    let serves = match is_owned {
        true => owners.any(|owner| *owner.uid == *profile.uid),
        false => target::serves(secret, &access.cluster).is_ok(),
    };
    if !serves {
        return Err(ConfigurationError::NoProfileSecret {
            provider: access.provider.to_string(),
            namespace: text(&secret.metadata.namespace),
            name: text(&secret.metadata.name),
            exists: true,
        });
    }
    Token::read(secret).map_err(invalid)
}

#[cfg(test)]
mod tests;
