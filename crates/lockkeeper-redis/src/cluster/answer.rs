//! What a cluster node answers instead of running a script. In each case it has executed nothing. Pure.

use crate::seeds::Endpoint;

/// What to do about an error reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Another node has the slot: send this request there, and later ones too.
    Moved(Endpoint),
    /// The slot is migrating, and this request's keys are on the new node already: send this request there, after an `ASKING`.
    Ask(Endpoint),
    /// The slot is migrating, and the request's keys are on both nodes: send it again a little later.
    TryAgain,
    /// The node serves no requests just now, and may no longer be the right one.
    NotNow,
    /// It concerns this request only.
    Other,
}

impl Answer {
    /// Reads an error reply that came from `asked`.
    pub(crate) fn read(text: &str, asked: &Endpoint) -> Self {
        let mut words = text.split_whitespace();
        let code = words.next().unwrap_or_default();
        let elsewhere = words.nth(1).and_then(|word| Endpoint::read(word, asked));
        match (code, elsewhere) {
            ("MOVED", Some(endpoint)) => Self::Moved(endpoint),
            ("ASK", Some(endpoint)) => Self::Ask(endpoint),
            ("TRYAGAIN", _) => Self::TryAgain,
            ("CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY", _) => Self::NotNow,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_replies_are_told_apart() {
        let endpoint = |host: &str, port| Endpoint {
            host: host.to_owned(),
            port,
        };
        let asked = endpoint("asked", 1);
        let cases = [
            (
                "MOVED 3999 127.0.0.1:6381",
                Answer::Moved(endpoint("127.0.0.1", 6381)),
            ),
            ("MOVED 3999 ::1:6381", Answer::Moved(endpoint("::1", 6381))),
            ("MOVED 3999 :6381", Answer::Moved(endpoint("asked", 6381))),
            ("MOVED 3999 ?:6381", Answer::Moved(endpoint("asked", 6381))),
            (
                "ASK 3999 node.example:6381",
                Answer::Ask(endpoint("node.example", 6381)),
            ),
            (
                "TRYAGAIN Multiple keys request during rehashing of slot",
                Answer::TryAgain,
            ),
            ("CLUSTERDOWN Hash slot not served", Answer::NotNow),
            (
                "LOADING Redis is loading the dataset in memory",
                Answer::NotNow,
            ),
            (
                "READONLY You can't write against a read only replica.",
                Answer::NotNow,
            ),
            ("NOSCRIPT No matching script.", Answer::Other),
            ("MOVED", Answer::Other),
            ("ASK 1 nowhere", Answer::Other),
            ("", Answer::Other),
        ];
        for (text, expected) in cases {
            assert_eq!(Answer::read(text, &asked), expected, "{text}");
        }
    }
}
