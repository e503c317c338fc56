// Package redisson shares locks with Redisson.
package redisson
