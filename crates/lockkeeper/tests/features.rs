//! If a URL needs a feature that this program was built without, the error names the feature. `cargo xtask prove`
//! builds this test with few features.

#![cfg(not(all(feature = "memory", feature = "tls", feature = "redis")))]

use lockkeeper::{Error, Result};

async fn needs(url: &str, feature: &str) -> Result<()> {
    let error = match lockkeeper::connect(url).await {
        Err(error @ Error::Config { .. }) => error.to_string(),
        other => panic!("{url}: {other:?}"),
    };
    assert!(error.contains(feature), "{url}: {error}");
    Ok(())
}

#[cfg(all(feature = "redis", not(feature = "tls")))]
#[tokio::test]
async fn a_url_that_asks_for_tls_names_its_feature() -> Result<()> {
    for url in [
        "rediss-cluster://127.0.0.1",
        "rediss-sentinel://127.0.0.1/x",
        "rediss://127.0.0.1",
    ] {
        needs(url, "feature `tls`").await?;
    }
    Ok(())
}

#[cfg(not(feature = "memory"))]
#[tokio::test]
async fn a_url_of_the_embedded_engine_names_its_feature() -> Result<()> {
    needs("memory://", "feature \"memory\"").await
}

#[cfg(not(any(feature = "redis", feature = "fred")))]
#[tokio::test]
async fn a_url_of_a_server_names_its_feature() -> Result<()> {
    needs("redis://127.0.0.1", "feature \"redis\"").await
}
