//! How many tokens one address may present that nobody has vouched for lately.
//!
//! Whoever guesses tokens, or sends an old one again and again, costs a question each time; so an address has a rate for
//! tokens that are refused. Only they count: what is looked up here ([`Newcomers::look`]) is charged when it was refused
//! ([`Newcomers::refused`]); what has to be asked of others is charged before ([`Newcomers::admit`]), and given back when it
//! was good ([`Newcomers::vouch`]). A token that was good lately is never held up, because many clients may share one
//! address: that of a load balancer, a NAT or the loopback. A part of the rate is for tokens that were turned away a while
//! ago and come again, as those of clients do and those of a flood do not: so a flood cannot keep newcomers out for good.
//! Identities that a front proxy passes on are no tokens.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use moka::future::Cache;
use tokio::sync::{Mutex, Notify, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::error::Refusal;
use crate::limiter::Limiter;

/// For how long a good token is remembered as such; this grants nothing but a look at it.
const GOOD_FOR: Duration = Duration::from_mins(10);
/// A token counts once in this time, however often it is presented: clients come with many requests at once.
const ONCE: Duration = Duration::from_secs(1);
/// For how long a token that was turned away may come again for its part of the rate.
const AGAIN_FOR: Duration = Duration::from_mins(1);
/// An address that was quiet for this long has its whole rate again.
const QUIET: Duration = Duration::from_secs(10);
/// How long a newcomer waits for others to turn out good, or for the rate to come back.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many newcomers of one address wait at once.
const WAITING: usize = 256;
/// How many look-ups of newcomers of one address go on at once, so that a flood leaves the database to others, and how long
/// one waits for its turn.
const LOOKS: usize = 2;
const LOOK_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(crate) struct Newcomers {
    rate: u32,
    good: Cache<[u8; 32], ()>,
    addresses: Cache<IpAddr, Arc<Address>>,
    /// What was decided of a token of an address a moment ago.
    decided: Cache<(IpAddr, [u8; 32]), Arc<Decided>>,
    turned_away: Cache<(IpAddr, [u8; 32]), ()>,
}

/// What one address has left.
#[derive(Debug)]
struct Address {
    first: Limiter,
    again: Limiter,
    places: Semaphore,
    /// They take their turns, so that one of them looks at the rate and not all.
    turn: Mutex<()>,
    given_back: Notify,
    looks: Semaphore,
}

#[derive(Debug)]
struct Decided {
    from: Option<Share>,
    given_back: AtomicBool,
}

/// Which part of the rate was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    First,
    Again,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    None,
    Some,
}

impl Newcomers {
    pub(crate) fn new(rate: u32, entries: u64) -> Newcomers {
        Newcomers {
            rate,
            good: Cache::builder().max_capacity(entries).time_to_idle(GOOD_FOR).build(),
            addresses: Cache::builder().max_capacity(entries).time_to_idle(QUIET).build(),
            decided: Cache::builder().max_capacity(entries).time_to_live(ONCE).build(),
            turned_away: Cache::builder().max_capacity(entries).time_to_live(AGAIN_FOR).build(),
        }
    }

    /// Whether somebody else may be asked about the token with this hash. It is charged until somebody vouches for it.
    pub(crate) async fn admit(&self, address: Option<IpAddr>, token: &[u8; 32]) -> Result<(), Refusal> {
        match address {
            Some(address) if !self.good.contains_key(token) => {
                self.charge(network(address), token, Patience::Some).await
            }
            _ => Ok(()),
        }
    }

    /// Runs a look-up of the token with this hash that costs little, in turn with those of other newcomers.
    pub(crate) async fn look<T>(
        &self,
        address: Option<IpAddr>,
        token: &[u8; 32],
        look: impl Future<Output = T>,
    ) -> Result<T, Refusal> {
        let Some(address) = address.filter(|_| !self.good.contains_key(token)) else { return Ok(look.await) };
        let address = self.address(network(address)).await;
        let turn: SemaphorePermit<'_> =
            timeout(LOOK_PATIENCE, address.looks.acquire()).await.ok().and_then(Result::ok).ok_or(BUSY)?;
        let found = look.await;
        drop(turn);
        Ok(found)
    }

    /// Charges for a token that is nobody's; an error when that is one too many.
    pub(crate) async fn refused(&self, address: Option<IpAddr>, token: &[u8; 32]) -> Result<(), Refusal> {
        match address {
            Some(address) => self.charge(network(address), token, Patience::None).await,
            None => Ok(()),
        }
    }

    /// The token of this address was good.
    pub(crate) async fn vouch(&self, address: Option<IpAddr>, token: [u8; 32]) {
        // A read keeps it from going idle; only a new one is worth a write.
        if self.good.get(&token).await.is_some() {
            return;
        }
        self.good.insert(token, ()).await;
        let Some(address) = address.map(network) else { return };
        let Some(decided) = self.decided.get(&(address, token)).await else { return };
        if let Some(share) = decided.from.filter(|_| !decided.given_back.swap(true, Relaxed)) {
            let address = self.address(address).await;
            address.limiter(share).give_back();
            address.given_back.notify_one();
        }
    }

    async fn charge(&self, address: IpAddr, token: &[u8; 32], patience: Patience) -> Result<(), Refusal> {
        let key = (address, *token);
        let decide = async {
            let shares: &[Share] = if self.turned_away.get(&key).await.is_some() {
                &[Share::Again, Share::First]
            } else {
                &[Share::First]
            };
            let from = self.address(address).await.take(shares, patience).await;
            if from.is_none() {
                self.turned_away.insert(key, ()).await;
            }
            Arc::new(Decided { from, given_back: AtomicBool::new(false) })
        };
        if self.decided.get_with(key, decide).await.from.is_some() { Ok(()) } else { Err(BUSY) }
    }

    async fn address(&self, address: IpAddr) -> Arc<Address> {
        self.addresses.get_with(address, async { Arc::new(Address::new(self.rate)) }).await
    }
}

impl Address {
    fn new(rate: u32) -> Address {
        let again = rate / 5;
        Address {
            first: Limiter::new(rate - again),
            again: Limiter::new(again),
            places: Semaphore::new(WAITING),
            turn: Mutex::default(),
            given_back: Notify::new(),
            looks: Semaphore::new(LOOKS),
        }
    }

    fn limiter(&self, share: Share) -> &Limiter {
        match share {
            Share::First => &self.first,
            Share::Again => &self.again,
        }
    }

    /// Takes from the first of these that has something, if need be after a while.
    async fn take(&self, shares: &[Share], patience: Patience) -> Option<Share> {
        let now = || shares.iter().copied().find(|share| self.limiter(*share).take());
        if patience == Patience::None {
            return now();
        }
        // What is kept for those who come again is not for those who wait.
        if shares.contains(&Share::Again) && self.again.take() {
            return Some(Share::Again);
        }
        // Behind those who wait already, if there are any.
        if let Ok(_turn) = self.turn.try_lock()
            && let Some(share) = now()
        {
            return Some(share);
        }
        let _place = self.places.try_acquire().ok()?;
        let wait = async {
            let _turn = self.turn.lock().await;
            loop {
                if let Some(share) = now() {
                    return share;
                }
                let _ = timeout(Duration::from_millis(20), self.given_back.notified()).await;
            }
        };
        timeout(PATIENCE, wait).await.ok()
    }
}

const BUSY: Refusal =
    Refusal::Busy { what: "new or refused tokens came from this address", setting: "access.new_tokens" };

/// Whoever has an IPv6 address has the 2^64 beside it too.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)));
    const THERE: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)));

    #[tokio::test]
    async fn an_address_that_presents_many_unknown_tokens_holds_up_nobody_but_its_own_newcomers() {
        let newcomers = Newcomers::new(3, 100);
        let good = [255; 32];
        newcomers.vouch(HERE, good).await;
        for number in [0, 1, 1, 1, 2] {
            assert!(newcomers.refused(HERE, &[number; 32]).await.is_ok());
        }
        let refusal = newcomers.refused(HERE, &[9; 32]).await.expect_err("the fourth within a second");
        assert!(refusal.hint().contains("access.new_tokens"), "{}", refusal.hint());
        assert!(newcomers.admit(HERE, &good).await.is_ok(), "a token that was good lately");
        assert!(newcomers.refused(THERE, &[9; 32]).await.is_ok(), "another address");
    }

    #[tokio::test]
    async fn tokens_that_turn_out_good_do_not_count() {
        let newcomers = Newcomers::new(1, 1000);
        let all = (0..200_u8).map(|number| {
            let newcomers = newcomers.clone();
            async move {
                newcomers.admit(HERE, &[number; 32]).await.expect("admitted");
                newcomers.vouch(HERE, [number; 32]).await;
            }
        });
        tokio::time::timeout(PATIENCE, futures::future::join_all(all)).await.expect("within the patience of one");
    }

    #[tokio::test]
    async fn a_flood_leaves_a_part_for_those_who_come_again() {
        let address = Address::new(10);
        while address.take(&[Share::First], Patience::None).await.is_some() {}
        let shares = [Share::Again, Share::First];
        assert_eq!(address.take(&shares, Patience::None).await, Some(Share::Again));
        // Not behind those who wait, either.
        let _turn = address.turn.lock().await;
        assert_eq!(address.take(&shares, Patience::Some).await, Some(Share::Again));
    }

    #[tokio::test]
    async fn look_ups_of_newcomers_take_turns_and_those_of_known_tokens_do_not() {
        let newcomers = Newcomers::new(1, 100);
        let address = newcomers.address(network(HERE.expect("an address"))).await;
        let turns = address.looks.acquire_many(2).await.expect("both");
        newcomers.vouch(HERE, [255; 32]).await;
        assert_eq!(newcomers.look(HERE, &[255; 32], async { 1 }).await, Ok(1));
        assert_eq!(newcomers.look(THERE, &[1; 32], async { 1 }).await, Ok(1));
        let waiting = newcomers.look(HERE, &[1; 32], async { 1 });
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(turns);
        assert_eq!(waiting.await, Ok(1));
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_are_one() {
        let network = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
    }
}
