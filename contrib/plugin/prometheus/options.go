// The options.

package leaseprom

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/observe"
)

// Options configure Metrics. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Store is the label store of all metrics, such as "redis" or the name of a quorum. Two
	// Metrics in one registry need different ones. The default is "default".
	Store string

	// Namer returns the label name for a key, such as "orders" for "orders:4711". It must
	// return few different names, because each has its own time series for as long as the
	// process runs. It is called concurrently, for each lock. A Multi has all its keys in one
	// key, separated by commas. Bytes that are not UTF-8 are replaced. Without a Namer there is
	// no such label.
	Namer func(key string) string

	// AcquireBuckets and HoldBuckets are the upper bounds of the histograms of the durations
	// of acquisitions and of holding, in seconds, in rising order. The defaults reach from 1 ms
	// to 1 minute and from 10 ms to 1 hour.
	AcquireBuckets []float64
	HoldBuckets    []float64
}

const defaultStore = "default"

// withDefaults returns a copy of the options with the defaults. The error names a bad field.
func (o *Options) withDefaults() (Options, error) {
	if o == nil {
		o = new(Options)
	}
	opts := *o
	if opts.Store == "" {
		opts.Store = defaultStore
	}
	if len(opts.AcquireBuckets) == 0 {
		opts.AcquireBuckets = observe.AcquireBuckets
	}
	if len(opts.HoldBuckets) == 0 {
		opts.HoldBuckets = observe.HoldBuckets
	}
	if !utf8.ValidString(opts.Store) {
		return opts, fmt.Errorf("leaseprom: Options.Store is not valid UTF-8: %q", opts.Store)
	}
	if !rising(opts.AcquireBuckets) {
		return opts, errors.New("leaseprom: Options.AcquireBuckets do not rise")
	}
	if !rising(opts.HoldBuckets) {
		return opts, errors.New("leaseprom: Options.HoldBuckets do not rise")
	}
	return opts, nil
}

// rising reports whether each bound is above the one before.
func rising(bounds []float64) bool {
	return slices.IsSorted(bounds) && len(slices.Compact(slices.Clone(bounds))) == len(bounds)
}
