# The image holds one static binary and nothing else: no shell, no package, no
# file to patch. CA roots are compiled in.
#
# The build image is an argument, so that it can be pinned or replaced; any with
# the Go of go.mod on its path will do, a shell is not needed.
ARG BUILD_IMAGE=docker.io/library/golang:1.26

FROM ${BUILD_IMAGE} AS build
ARG VERSION=""
ARG TARGETOS=linux
ARG TARGETARCH=""
ENV CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
WORKDIR /src
COPY go.mod go.sum ./
RUN ["go", "mod", "download"]
COPY cmd cmd
COPY consumer consumer
COPY sink sink
COPY internal internal
# -s -w drops what a debugger needs; panics keep their traces. The flags come by
# environment because this form of RUN, which needs no shell, replaces nothing.
ENV GOFLAGS="-buildvcs=false -trimpath '-ldflags=-s -w -X main.version=${VERSION}'"
RUN ["go", "build", "-o", "/mskbridge", "./cmd/mskbridge"]

FROM scratch
COPY --from=build /mskbridge /mskbridge
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/mskbridge"]
