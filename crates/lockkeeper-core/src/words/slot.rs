//! Slots of a cluster: the slot of a key, and a short text with a given slot.

use std::sync::OnceLock;

/// The number of slots of a cluster.
const SLOTS: u16 = 16384;

/// The cluster slot of a key, a number below 16384. Source: the cluster specification, "Key distribution model" and
/// "Hash tags".
///
/// ```
/// use lockkeeper_core::store::slot_of;
///
/// assert_eq!(slot_of("foo"), 12182);
/// assert_eq!(slot_of("{foo}:queue"), 12182);
/// ```
pub fn slot_of(key: &str) -> u16 {
    hashed(hash_tag(key).unwrap_or(key))
}

const CRC: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);

fn hashed(text: &str) -> u16 {
    CRC.checksum(text.as_bytes()) % SLOTS
}

/// The part of the key that Redis hashes: the text between the first `{` and the next `}`, unless it is empty.
pub(crate) fn hash_tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// The smallest six-digit number that hashes to this slot when it is written after `prefix`. Together they are a hash
/// tag for keys of the slot. Every client must find the same number.
pub(crate) fn number_behind<const N: usize>(prefix: [&str; N], slot: u16) -> u32 {
    static NUMBERS: OnceLock<Box<[u32]>> = OnceLock::new();
    let numbers = NUMBERS.get_or_init(|| {
        let (mut numbers, mut missing) = (vec![None; usize::from(SLOTS)], SLOTS);
        for number in 0..1_000_000 {
            let place = &mut numbers[usize::from(hashed(&format!("{number:06}")))];
            if place.is_none() {
                (*place, missing) = (Some(number), missing - 1);
            }
            if missing == 0 {
                break;
            }
        }
        numbers.into_iter().flatten().collect()
    });
    // The checksum is linear: the checksum of a text is the checksum of its beginning followed by zeros, combined with
    // the checksum of its end.
    let mut beginning = CRC.digest();
    for text in prefix.into_iter().chain(["\0\0\0\0\0\0"]) {
        beginning.update(text.as_bytes());
    }
    let rest = beginning.finalize() ^ slot;
    numbers[usize::from(rest % SLOTS)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_function_is_the_one_of_redis() {
        // From CLUSTER KEYSLOT of redis-server 7.0.
        assert_eq!(slot_of("foo"), 12182);
        assert_eq!(slot_of("{user1000}.following"), slot_of("user1000"));
        assert_eq!(slot_of("somekey"), 11058);
    }

    #[test]
    fn every_slot_has_a_number_behind_every_prefix() {
        for prefix in ["", "lockkeeper:", "a-long.prefix:"] {
            for slot in 0..SLOTS {
                let tag = format!("{prefix}{:06}", number_behind([prefix], slot));
                assert_eq!(slot_of(&format!("lockkeeper.fence:{{{tag}}}")), slot);
            }
        }
        // The smallest one, found by trying one number after the other.
        let first = (0..).find(|number| slot_of(&format!("shop:{number:06}")) == 77);
        assert_eq!(first, Some(number_behind(["shop", ":"], 77)));
    }
}
