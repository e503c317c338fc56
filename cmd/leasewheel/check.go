// The command check, which looks for unsafe settings.

package main

import (
	"flag"
	"fmt"

	"github.com/leasewheel/leasewheel/lock/redisstore"
)

var checkCommand = command{
	name:    "check",
	summary: "look for settings of the server that are unsafe for locks",
	about: `
Prints the settings and rights of the server, in a cluster of each master, that are unsafe for locks, what they
mean and what to do. It writes nothing. The exit status is 1 if something is unsafe; warnings do not count.
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var o showOptions
		var options redisstore.CheckOptions
		o.defineJSON(f)
		defineDuration(f, &options.TTL, "ttl", defaultTTL, "shortest `duration` of the leases that the server will keep")
		return func(_ []string, std streams) int {
			ctx, cancel := readContext()
			defer cancel()
			s, err := o.open(ctx)
			if err != nil {
				return fail(std, err)
			}
			defer s.close()
			report, err := s.store.Check(ctx, &options)
			switch {
			case len(report.Servers) == 0 && err != nil:
				return fail(std, err)
			case o.json:
				err = printJSON(std.out, struct {
					Safe bool `json:"safe"`
					redisstore.Report
				}{report.Safe(), report})
			default:
				fmt.Fprintln(std.out, forShell.Replace(report.String()))
			}
			switch {
			case err != nil:
				return fail(std, err)
			case !report.Safe():
				return exitFound
			}
			return 0
		}
	},
}
