use causeway::domain::ServiceKey;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::json;

use super::*;
use crate::fixtures::{key, name};
use crate::model::Operation;
use crate::model::slice::{Exposure, content_hash};

const PAUSE: Duration = Duration::from_secs(300);
const SECOND: Duration = Duration::from_secs(1);

struct Ring {
    write_conflicts: WriteConflicts,
    now: Instant,
}

fn ring() -> Ring {
    Ring {
        write_conflicts: WriteConflicts::new(PAUSE),
        now: Instant::now(),
    }
}

fn cluster() -> TargetCluster {
    TargetCluster::Member(name("member1"))
}

fn item() -> Item {
    Item::Service(key("foo"))
}

fn object() -> ObjectId {
    ObjectId::Service(key("foo"))
}

fn write(object: &ObjectId, content: u64) -> Write {
    Write::patch(object.clone(), json!({ "spec": content }))
}

impl Ring {
    fn of(&mut self, object: &ObjectId, content: u64) -> Option<WriteConflict> {
        let write = write(object, content);
        self.write_conflicts
            .note(&cluster(), &item(), &write, self.now)
    }

    fn write(&mut self, content: u64) -> Option<WriteConflict> {
        self.of(&object(), content)
    }

    fn delete(&mut self) {
        let write = Write::delete(object(), "u", "1");
        let noted = self
            .write_conflicts
            .note(&cluster(), &item(), &write, self.now);
        assert_eq!(noted, None);
    }

    /// Writes the same content once a second until it is a conflict. Returns the number of writes
    /// and the conflict.
    fn write_conflict(&mut self, content: u64) -> (usize, WriteConflict) {
        for number in 1..100 {
            if let Some(write_conflict) = self.write(content) {
                return (number, write_conflict);
            }
            self.pass(SECOND);
        }
        panic!("it is never noticed");
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn held(&self, content: u64) -> bool {
        let write = write(&object(), content);
        let held = self
            .write_conflicts
            .held_until(&cluster(), &write, self.now);
        held.is_some()
    }

    fn ongoing(&self) -> usize {
        self.write_conflicts
            .ongoing(&cluster(), &item(), self.now)
            .count()
    }
}

#[test]
fn other_version_of_the_cluster_ends_its_conflicts() {
    let mut ring = ring();
    ring.write_conflict(7);
    ring.write_conflicts
        .end(&TargetCluster::Member(name("member2")));
    assert!(ring.held(7), "of another cluster");
    ring.write_conflicts.end(&cluster());
    assert!(!ring.held(7));
    assert_eq!(ring.ongoing(), 0);
    let (writes, again) = ring.write_conflict(7);
    assert!(writes >= ROUNDS && again.is_new, "{writes}");
}

#[test]
fn the_same_put_back_five_times_within_a_minute_is_a_fight() {
    let mut ring = ring();
    let (writes, write_conflict) = ring.write_conflict(7);
    assert_eq!(writes, ROUNDS + 1);
    let expected = WriteConflict {
        pause: PAUSE,
        is_new: true,
    };
    assert_eq!(write_conflict, expected);
    assert!(ring.held(7) && !ring.held(8));
    assert_eq!(ring.ongoing(), 1);
    let other = ObjectId::Service(ServiceKey::new("shop", "bar"));
    let held = |cluster: &TargetCluster, object| {
        ring.write_conflicts
            .held_until(cluster, &write(object, 7), ring.now)
    };
    assert_eq!(held(&cluster(), &other), None);
    assert_eq!(held(&TargetCluster::Hub, &object()), None);
}

#[test]
fn what_is_put_back_now_and_then_is_none() {
    let mut ring = ring();
    for _ in 0..100 {
        assert_eq!(ring.write(7), None);
        ring.pass(SECOND * 15);
    }
}

#[test]
fn a_storm_of_changes_of_what_is_desired_is_none() {
    let mut ring = ring();
    for content in 0..1000 {
        assert_eq!(ring.write(content), None);
        ring.pass(SECOND / 10);
    }
    for round in 0..1000 {
        assert_eq!(ring.write(round % 2), None, "to and fro");
        ring.pass(SECOND / 10);
    }
}

#[test]
fn writes_of_other_objects_do_not_count() {
    let mut ring = ring();
    for number in 0..100 {
        let object = ObjectId::Service(ServiceKey::new("shop", format!("s{number}").as_str()));
        assert_eq!(ring.of(&object, 7), None);
    }
}

#[test]
fn what_goes_on_is_left_alone_for_twice_as_long_up_to_an_hour() {
    let mut ring = ring();
    ring.write_conflict(7);
    let mut pauses = Vec::new();
    let mut pause = PAUSE;
    for _ in 0..5 {
        ring.pass(pause - SECOND);
        assert!(ring.held(7));
        ring.pass(SECOND);
        assert!(!ring.held(7));
        let (writes, write_conflict) = ring.write_conflict(7);
        assert_eq!(
            (writes, write_conflict.is_new),
            (2, false),
            "one try is undone"
        );
        pause = write_conflict.pause;
        pauses.push(pause.as_secs() / 60);
    }
    assert_eq!(pauses, [10, 20, 40, 60, 60]);
}

#[test]
fn it_is_over_once_a_write_stays_for_a_minute() {
    let mut ring = ring();
    ring.write_conflict(7);
    ring.pass(PAUSE);
    assert_eq!(ring.ongoing(), 0, "the object is in order");
    assert_eq!(ring.write(7), None);
    assert_eq!(ring.ongoing(), 1, "it was not");
    ring.pass(WINDOW);
    assert_eq!(ring.ongoing(), 0);
    let (writes, write_conflict) = ring.write_conflict(7);
    assert_eq!(
        (writes, write_conflict.is_new, write_conflict.pause),
        (ROUNDS + 1, true, PAUSE)
    );
}

#[test]
fn other_content_is_written_and_fought_over_again() {
    let mut ring = ring();
    ring.write_conflict(7);
    let (writes, write_conflict) = ring.write_conflict(8);
    assert_eq!((writes, write_conflict.pause), (ROUNDS + 1, PAUSE * 2));
    assert!(ring.held(8) && !write_conflict.is_new);
}

#[test]
fn write_of_the_whole_object_ends_the_pause_until_the_next_conflict() {
    let mut ring = ring();
    ring.write_conflict(7);
    assert!(ring.held(7));
    assert_eq!(ring.write(8), None);
    assert!(
        ring.held(7),
        "a patch may leave what the other writer changed"
    );
    ring.delete();
    assert!(!ring.held(7) && !ring.held(8));
    assert_eq!(ring.write(7), None, "one try");
    assert!(!ring.held(7));
    ring.pass(SECOND);
    let expected = WriteConflict {
        pause: PAUSE * 2,
        is_new: false,
    };
    assert_eq!(ring.write(7), Some(expected));
    assert!(ring.held(7));
}

#[test]
fn what_was_written_long_ago_is_forgotten() {
    let mut ring = ring();
    for number in 0..100 {
        let object = ObjectId::Service(ServiceKey::new("shop", format!("s{number}").as_str()));
        ring.of(&object, 7);
    }
    ring.pass(WINDOW * 2);
    ring.write(7);
    assert_eq!(ring.write_conflicts.written.len(), 1);
}

#[test]
fn other_writer_of_a_copy_is_looked_up_once_a_conflict_and_reported_once() {
    for (found, expected) in [
        (Some("flipper"), "is changed by flipper"),
        (None, "is changed by a manager that is not known"),
    ] {
        let id = SliceId {
            service: key("foo"),
            exposure: Exposure::Native,
            name: "member2-foo".into(),
        };
        let object = ObjectId::Slice(id.clone());
        let copy = || {
            let slice = EndpointSlice::default();
            let content = content_hash(&slice).expect("a copy");
            Write::new(
                object.clone(),
                Operation::ReplaceSlice(slice.into(), content),
            )
        };
        let (mut write_conflicts, now) = (WriteConflicts::new(PAUSE), Instant::now());
        let noted =
            (0..=ROUNDS).filter_map(|_| write_conflicts.note(&cluster(), &item(), &copy(), now));
        assert_eq!(noted.count(), 1);
        assert_eq!(
            write_conflicts.take_lookups(&item()),
            [],
            "before it writes again"
        );
        for lookups in [vec![(cluster(), id.clone())], vec![]] {
            write_conflicts.note_held(&cluster(), &object);
            assert_eq!(write_conflicts.take_lookups(&item()), lookups);
        }
        assert!(
            write_conflicts.note_writer(&cluster(), &object, found),
            "an Event"
        );
        assert!(
            !write_conflicts.note_writer(&cluster(), &object, found),
            "one Event"
        );
        let text = text_of(&write_conflicts, now);
        assert!(text.contains(expected), "{text}");

        // It goes on after the pause: another lookup, and no other Event.
        let mut later = now + PAUSE;
        for _ in 0..2 {
            write_conflicts.note(&cluster(), &item(), &copy(), later);
            later += SECOND;
        }
        write_conflicts.note_held(&cluster(), &object);
        assert_eq!(write_conflicts.take_lookups(&item()).len(), 1);
        assert!(!write_conflicts.note_writer(&cluster(), &object, None));
        let text = text_of(&write_conflicts, later);
        assert!(text.contains(expected), "after a failed lookup: {text}");
    }
}

fn text_of(write_conflicts: &WriteConflicts, now: Instant) -> String {
    let (cluster, item) = (cluster(), item());
    let mut ongoing = write_conflicts.ongoing(&cluster, &item, now);
    ongoing.next().expect("a conflict").fact(None).to_string()
}

#[test]
fn writer_of_a_service_is_not_looked_up() {
    let mut ring = ring();
    ring.write_conflict(7);
    ring.write_conflicts.note_held(&cluster(), &object());
    assert_eq!(ring.write_conflicts.take_lookups(&item()), []);
}
