// Package certmagiclock gives certmagic, and so Caddy, locks that several instances share. Any
// storage of certmagic can use them.
//
// A program changes by one line:
//
//	certmagic.Default.Storage = certmagiclock.Wrap(certmagic.Default.Storage, client, nil)
//
// A storage of your own embeds a [Locker] instead, and needs no Lock and Unlock:
//
//	type storage struct {
//		*certmagiclock.Locker // made by certmagiclock.New(client, nil)
//		db                    *sql.DB
//	}
//
// A storage module of Caddy does either in its method CertMagicStorage.
//
// While certmagic holds a lock, the client renews its lease, however long an issuer takes. If an
// instance crashes, others get its locks after the TTL. Do not use a client whose Terms have
// Fixed: certmagic may hold a lock for longer than any TTL, and renews it only before each try.
//
// # Lost locks
//
// certmagic does not stop its work when a lock is lost, and cannot be notified. So
// the loss of a lock is
//
//   - logged as a warning, when it happens, by the Logger of [Options];
//   - the error of Unlock, which certmagic logs, too;
//   - noticed by RenewLockLease, which certmagic calls before each try to get a certificate.
//     It locks again, or makes certmagic wait for the next try.
//
// Two instances may then get the same certificate, which costs a part of the issuer's rate limit and does
// no other harm.
package certmagiclock
