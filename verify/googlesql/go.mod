module github.com/mskbridge/mskbridge/verify/googlesql

go 1.26.8

require (
	github.com/goccy/go-googlesql v0.4.0
	github.com/mskbridge/mskbridge v0.0.0
)

require github.com/goccy/googlesqlwasm2go v0.2.0 // indirect

replace github.com/mskbridge/mskbridge => ../..
