// Package storekit is shared by package lock and by stores. It releases leases in the background and at Close, and counts
// the calls of a store.
package storekit

import (
	"errors"
	"net/url"
	"strings"
)

// ErrExited is the outcome of a call of a store that did not return, because the store
// ended the goroutine.
var ErrExited = errors.New("the store has ended the goroutine of the call")

// Addresses returns the addresses in URLs of servers, without users. What is no URL with a host stays as it is.
func Addresses(urls []string) (all []string) {
	for _, s := range urls {
		if u, err := url.Parse(s); err == nil && u.Host != "" {
			s = u.Host
		}
		all = append(all, strings.TrimSuffix(s, "/"))
	}
	return all
}
