// Package redisson tests that package lock/redisson and Redisson exclude and wake each other. The
// peer is a JVM with Redisson, of the version in java/pom.xml. The tests need a JDK and Maven, which
// fetches the libraries. Without them they are skipped, and the report after the last test shows it.
//
// A test of a hand-over holds the lock for longer than it waits, and releases it only when the log of the
// server shows that the waiter cannot get the lock without a message any more. So it fails if a release
// sends no message, a wrong one, or one to another channel.
package redisson
