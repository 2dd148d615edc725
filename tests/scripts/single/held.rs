//! What a repeated acquire and a verification leave as it is.

use super::*;

vectors! { Scripts in [thin inflated]:
    a_repeated_acquire_gives_its_token_whatever_became_of_the_counter
    a_repeat_of_another_grant_arms_nothing
    verify_changes_nothing
}

async fn a_repeated_acquire_gives_its_token_whatever_became_of_the_counter(
    it: &Scripts,
) -> Result<()> {
    let (first, counter) = (it.hold(A).await?, name_of("name")?.counter());
    it.command(&["DEL", &counter]).await?;
    ensure!(token(&it.acquire(A).await?)? == first);
    it.command(&["SET", &counter, "no number", "PX", "5000"])
        .await?;
    ensure!(token(&it.repeat(A, first).await?)? == first);
    Ok(())
}

async fn a_repeat_of_another_grant_arms_nothing(it: &Scripts) -> Result<()> {
    let token = it.hold(A).await?;
    it.lease_ends_in(A, 3_000).await?;
    ensure!(it.repeat(A, token - 1).await? == "GONE");
    ensure!(it.left(A).await? <= 3_000);
    Ok(())
}

async fn verify_changes_nothing(it: &Scripts) -> Result<()> {
    ensure!(it.verify(A).await? == "GONE");
    it.hold(A).await?;
    it.lease_ends_in(A, 9_000).await?;
    let before = it.dump().await?;
    let left = number(&it.verify(A).await?, "HELD", 1)?;
    ensure!(is_nearly(left, 9_000), "{left}");
    ensure!(it.verify(B).await? == "GONE");
    ensure!(it.dump().await? == before);
    ensure!(it.left(A).await? <= 9_000);
    Ok(())
}
