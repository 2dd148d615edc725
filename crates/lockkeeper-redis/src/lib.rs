//! temporary
use lockkeeper_core::store::Store;
/// temporary
pub struct RedisStore;
impl RedisStore {
    /// temporary
    pub async fn connect(_: &str) -> lockkeeper_core::Result<std::sync::Arc<dyn Store>> {
        Err(lockkeeper_core::Error::config("temporary"))
    }
}
