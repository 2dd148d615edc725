//! Reports an acquisition to observers: once that it begins, at most once that it waits, and once how it ended.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::stage::{PartSpec, Stage};
use crate::seam::observer::{AcquisitionEvent, AcquisitionOutcome};

/// The names of an acquisition whose end must still be reported to observers; empty if nobody observes.
#[derive(Default)]
pub(super) struct Told(Vec<Name>);

struct Name {
    spec: PartSpec,
    waits: bool,
}

impl Name {
    fn tell(&self, event: AcquisitionEvent) {
        let PartSpec {
            engine,
            protocol,
            owner,
            ..
        } = &self.spec;
        let audience = &engine.requester.audience;
        audience.on_acquisition(&**protocol, *owner, event);
    }
}

impl Told {
    /// Reports that an acquisition of these stages begins. For a lock on several servers, it reports to the observer of
    /// the first client.
    pub(super) fn begin(stages: &[Arc<Stage>]) -> Self {
        let mut told = Vec::new();
        for stage in stages {
            let names = if stage.quorum.is_some() {
                1
            } else {
                usize::MAX
            };
            let specs = stage.specs.iter().take(names);
            for spec in specs.filter(|it| it.engine.requester.audience.is_there()) {
                let spec = spec.clone();
                let name = Name { spec, waits: false };
                name.tell(AcquisitionEvent::Began);
                told.push(name);
            }
        }
        Self(told)
    }

    /// Whether the end must still be reported to an observer.
    pub(super) const fn is_heard(&self) -> bool {
        !self.0.is_empty()
    }

    /// Reports that the acquisition waits for this name.
    pub(super) fn waits(&mut self, spec: &PartSpec) {
        let is_it = |it: &&mut Name| {
            let same = Arc::ptr_eq(&it.spec.engine, &spec.engine);
            !it.waits && same && it.spec.protocol.name() == spec.protocol.name()
        };
        for name in self.0.iter_mut().filter(is_it) {
            name.waits = true;
            name.tell(AcquisitionEvent::Waiting);
        }
    }

    /// Reports that the acquisition has ended.
    pub(super) fn end(&mut self, outcome: AcquisitionOutcome, took: Duration) {
        for name in self.0.drain(..) {
            let waited = name.waits;
            name.tell(AcquisitionEvent::Ended {
                outcome,
                took,
                waited,
            });
        }
    }
}
