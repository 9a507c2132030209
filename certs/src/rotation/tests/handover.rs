//! The way from one Secret, as versions up to 0.1 store everything, to two, and back.

use super::*;

/// One Secret with all of it, as versions up to 0.1 write it; the other as the manifests create it.
fn combined(contents: &Contents) -> Secrets {
    Secrets {
        serving: Some(contents.clone()),
        authority: Some(Contents::default()),
    }
}

fn case(stored: Secrets, pem: &str) -> Case {
    let mut case = Case::new(None, begin() + DAY).published(published(pem, DAY));
    case.stored = stored;
    case
}

#[test]
fn authority_is_copied_first_and_its_key_removed_later() {
    let ours = authority(begin());
    let contents = good(&ours, begin());
    let mut case = case(combined(&contents), ours.pem());
    let trust = |case: &Case| case.with(|situation| decide(situation).trust).unwrap();
    let before = trust(&case);
    assert_eq!(case.next_change(), (Some(Change::Normalize), None));
    let copied = case.written();
    assert_eq!(copied, Secrets::split(&contents, true));
    // A replica that stopped before it wrote the serving Secret, and every other one, goes on.
    case.stored = copied;
    assert_eq!(
        (case.next_change(), trust(&case)),
        ((None, None), before.clone())
    );
    let handover = Lifetimes::new(AUTHORITY, LEAF).unwrap().handover();
    let again = case.with(|situation| decide(situation).again);
    assert_eq!(again, Some(handover));
    case.combined_for = handover;
    assert_eq!(case.next_change(), (Some(Change::Normalize), None));
    let apart = case.written();
    assert_eq!(apart, Secrets::split(&contents, false));
    let kept = apart.serving.as_ref().unwrap();
    assert!(kept.get(CA_KEY).is_none() && kept.get(CERTIFICATE).is_some());
    case.stored = apart;
    assert_eq!((case.next_change(), trust(&case)), ((None, None), before));
}

#[test]
fn key_is_not_removed_before_it_is_copied() {
    let ours = authority(begin());
    let contents = good(&ours, begin());
    let mut case = case(combined(&contents), ours.pem());
    case.combined_for = LEAF;
    let written = case.written();
    // The authority is written first. Whoever stops after that leaves what the next replica
    // completes.
    case.stored.authority = written.authority.clone();
    assert_eq!(case.next_change(), (Some(Change::Normalize), None));
    assert_eq!(case.written(), written);
}

#[test]
fn serving_secret_that_signs_decides_after_a_way_back() {
    let (older, newer) = (authority(begin()), authority(begin()));
    let both = both(&newer, &older);
    let mut contents = good(&newer, begin());
    contents.set(CA_CERTIFICATE, both.as_str());
    contents.set(
        OLD_UNTIL,
        (begin() + LEAF)
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs()
            .to_string(),
    );
    let stored = Secrets {
        serving: Some(contents.clone()),
        authority: Secrets::split(&good(&older, begin()), false).authority,
    };
    let case = case(stored, &both);
    let trust = case.with(|situation| decide(situation).trust).unwrap();
    assert!(Bundle::read(both.as_bytes()).is_just(&trust));
    assert_eq!(case.written(), Secrets::split(&contents, true));
}

#[test]
fn stop_between_the_writes_of_a_succession_leaves_trust() {
    let (ours, next) = (authority(begin()), authority(begin()));
    let stored = staged(&ours, &next);
    let mut case =
        case(secrets(Some(stored)), &both(&ours, &next)).requesting(RotationRequest::Authority);
    assert_eq!(case.next_change(), (Some(Change::Issue), None));
    case.stored.authority = case.written().authority;
    let stopped = Stored::read(case.stored.clone());
    let leaf = stopped.leaf(&names(), case.now).unwrap();
    assert!(stopped.trust(case.now).contains(&leaf.issuer));
    assert!(case.with(|situation| situation.servable().is_some()));
    let trust = case.with(|situation| decide(situation).trust);
    assert_eq!(trust.map(|trust| trust.len()), Some(2));
    // The copy follows, then the leaf; the request is not for yet another authority.
    assert_eq!(case.next_change(), (Some(Change::Normalize), None));
    case.stored = case.written();
    assert_eq!(case.next_change(), (Some(Change::Issue), None));
    assert!(case.with(|situation| decide(situation).fulfils_request));
    let done = Stored::read(case.written());
    let signing = &done.signing(case.now).unwrap().certificate;
    assert_eq!(&done.leaf(&names(), case.now).unwrap().issuer, signing);
}

#[test]
fn damaged_copy_of_the_trusted_certificates_is_written_again() {
    let ours = authority(begin());
    let whole = secrets(Some(good(&ours, begin())));
    for (copy, fault) in [
        (None, Fault::Missing),
        (Some("rubbish"), Fault::Undecodable),
    ] {
        let mut case = case(whole.clone(), ours.pem());
        let serving = case.stored.serving.as_mut().unwrap();
        match copy {
            Some(text) => serving.set(CA_CERTIFICATE, text),
            None => serving.remove(CA_CERTIFICATE),
        }
        assert!(case.with(|situation| situation.servable().is_some()));
        assert_eq!(case.next_change(), (Some(Change::Normalize), Some(fault)));
        assert_eq!(case.written(), whole);
    }
}
