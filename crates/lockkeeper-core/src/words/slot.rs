//! Slots of a cluster: to which one a key belongs, and a short text that belongs to it.

use std::sync::OnceLock;

/// How many slots a cluster has.
const SLOTS: usize = 16384;

/// The slot of a key. Source: the cluster specification, "Key distribution model" and "Hash tags".
pub(crate) fn slot_of(key: &str) -> usize {
    hashed(hash_tag(key).unwrap_or(key))
}

fn hashed(text: &str) -> usize {
    const CRC: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);
    usize::from(CRC.checksum(text.as_bytes())) % SLOTS
}

/// What Redis hashes instead of the whole key: the text between the first `{` and the next `}`, unless it is empty.
pub(crate) fn hash_tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// The smallest number that belongs to this slot when it is written down in decimal: a hash tag for keys of the slot. Every client
/// must come to the same one.
pub(crate) fn tag_of(slot: usize) -> u32 {
    static TAGS: OnceLock<Box<[u32]>> = OnceLock::new();
    let tags = TAGS.get_or_init(|| {
        let mut tags: Vec<Option<u32>> = vec![None; SLOTS];
        let (mut missing, mut number) = (SLOTS, 0);
        while missing > 0 {
            let tag = &mut tags[hashed(&number.to_string())];
            missing -= usize::from(tag.is_none());
            tag.get_or_insert(number);
            number += 1;
        }
        tags.into_iter().flatten().collect()
    });
    tags[slot % SLOTS]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_function_is_the_one_of_redis() {
        // CLUSTER KEYSLOT of redis-server 7.0.
        assert_eq!(slot_of("foo"), 12182);
        assert_eq!(slot_of("{user1000}.following"), slot_of("user1000"));
        assert_eq!(slot_of("somekey"), 11058);
    }

    #[test]
    fn every_slot_has_a_tag_that_belongs_to_it() {
        for slot in 0..SLOTS {
            assert_eq!(
                slot_of(&format!("lockkeeper.fence:{{{}}}", tag_of(slot))),
                slot
            );
        }
    }
}
