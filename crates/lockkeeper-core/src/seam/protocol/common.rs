//! Items of scripts whose contracts are the same in several kinds. Each is named by what the script wants, `KEYS` first; the
//! script itself is the kind's choice.

use lockkeeper_lua::{Script, multi};

use crate::seam::protocol::{Protocol, RequestContext, ScriptCall, Together};
use crate::words::name::Name;

impl RequestContext<'_> {
    /// A renewal: `main`; `claim`, `ttl`.
    pub fn renewal(&self, script: &'static Script, name: &Name) -> ScriptCall {
        let args = [self.claim.as_str().to_owned(), self.ttl_ms()];
        ScriptCall::new(script, [name.main().to_owned()], args)
    }

    /// A question whether the claim holds: `main`; `claim`.
    pub fn question(&self, script: &'static Script, name: &Name) -> ScriptCall {
        let claim = self.claim.as_str().to_owned();
        ScriptCall::new(script, [name.main().to_owned()], [claim])
    }

    /// A leave that overtakes nothing: `main`; `claim`, `channel`, `keep`.
    pub fn release(&self, script: &'static Script, name: &Name) -> ScriptCall {
        let args = [
            self.claim.as_str().to_owned(),
            name.wakes(),
            self.cooldown_ms(),
        ];
        ScriptCall::new(script, [name.main().to_owned()], args)
    }

    /// A leave that may overtake an acquire and marks the claim as gone: `main`, `gone`; `claim`, `channel`, `keep`, `ttl`.
    pub fn release_in_doubt(&self, script: &'static Script, name: &Name) -> ScriptCall {
        let keys = [name.main().to_owned(), name.tombstone(self.claim)];
        let claim = self.claim.as_str().to_owned();
        ScriptCall::new(
            script,
            keys,
            [claim, name.wakes(), self.cooldown_ms(), self.ttl_ms()],
        )
    }

    /// An item of the scripts for several names, as [`Joint`](crate::protocol::Joint) wants it of the kinds that they know: those whose
    /// word stands in them.
    pub fn group_item(&self, protocol: &dyn Protocol, verb: Together) -> ScriptCall {
        let (name, claim) = (protocol.name(), self.claim.as_str().to_owned());
        let (main, gone) = (name.main().to_owned(), name.tombstone(self.claim));
        let kind = protocol.kind().as_str().to_owned();
        match verb {
            Together::Acquire => {
                let args = [claim, self.ttl_ms(), self.floor.to_string(), kind];
                ScriptCall::new(&multi::ACQUIRE, [main, name.part("fence"), gone], args)
            }
            Together::Release { overtakes } => {
                let tombstone_ttl = if overtakes {
                    self.ttl_ms()
                } else {
                    "0".to_owned()
                };
                let args = [claim, name.wakes(), self.cooldown_ms(), tombstone_ttl, kind];
                ScriptCall::new(&multi::RELEASE, [main, gone], args)
            }
        }
    }
}
