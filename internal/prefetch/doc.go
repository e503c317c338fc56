// Package prefetch lets the processor load memory before it is read. An engine
// prefetches the tasks of a whole batch, so that the cache misses overlap.
package prefetch
