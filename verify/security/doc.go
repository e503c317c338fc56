// Package security tests the promises of SECURITY.md: secrets do not occur in logs and
// errors, names are never executed, guessed owners and forged messages have no effect,
// wrong certificates are refused,
// and many callers do not delay renewals.
package security
