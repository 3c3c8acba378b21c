// Package fakeaws stands in for what a Google service account needs to become an
// AWS role without a stored key: the part of Google's metadata server that signs
// ID tokens, and the part of AWS STS that trades them for credentials.
//
//	a := fakeaws.New(fakeaws.Options{Region: "eu-west-1", Role: role, Audience: "sts.amazonaws.com"})
//	address, err := a.Start()                  // HTTP on loopback
//	defer a.Close()
//	client := a.Client(nil)                    // reaches it under every name
//	kafka := fakekafka.SASL{Identity: a.Identity, ...}
//
// Both ends are strict: a token wants the metadata header, a role wants the
// token's sub, azp and aud to be those of its trust policy, a signature that is
// ours, a time that is not over, one session name, the regional endpoint. Life
// may be shorter than STS allows, so that tests need not wait.
//
// Down, Distrust and Deny break it and mend it at any time.
package fakeaws
