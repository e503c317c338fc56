// Package redisson tests that package lock/redisson and Redisson exclude and wake each other. The
// peer is a JVM with Redisson, of the version in java/pom.xml. The tests need a JDK and Maven, which
// fetches the libraries. Without them they are skipped with a message, or fail if the environment
// variable CI is set.
package redisson
