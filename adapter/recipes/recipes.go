// Package recipes has short functions that use locks with asynq, goose, River and Watermill. They are meant to be
// copied; the [guide] explains them, and the tests of this package run them.
//
// [guide]: https://github.com/leasewheel/leasewheel/blob/main/docs/GUIDE.md#recipes
package recipes
