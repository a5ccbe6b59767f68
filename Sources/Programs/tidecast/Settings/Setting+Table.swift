import FCMAPI
import Node

/// All settings of a server, in the order of the page.
extension Setting {
    static let all: [Setting] = listening + limits + cluster + modes

    static let data = Setting(
        "data", value: "DIR",
        "The data folder. The server makes a missing one, with mode 0700. One process at a time may use it.")
    static let listen = Setting(
        "listen", as: .list, value: "HOST:PORT", default: "127.0.0.1:8787",
        "Where to listen for HTTP/2 and HTTP/1.1 without TLS, on one port.")
    static let listenTls = Setting(
        "listenTls", value: "HOST:PORT",
        "Where to listen with TLS. ALPN chooses the version of HTTP: HTTP/1.1 without it.")
    static let listenMetrics = Setting(
        "listenMetrics", value: "HOST:PORT",
        "Where to serve `/metrics`, `/healthz` and `/readyz` alone, without TLS, for scrapers and probes.",
        more: "For a network without clients: see [running.md](running.md#watching-it).")
    static let cert = Setting(
        "cert", value: "FILE", "The certificate chain, PEM, the server's own certificate first.",
        more: "The server reads it again when it changes: see [running.md](running.md#certificates).")
    static let key = Setting(
        "key", value: "FILE", "The private key of the certificate, PEM, without a passphrase.")
    static let furtherCert = Setting(
        "furtherCert", as: .list, value: "FILE",
        "A further certificate chain, for clients that ask for its names.")
    static let furtherKey = Setting(
        "furtherKey", as: .list, value: "FILE", "The keys of the further chains, in the same order.")
    static let publicUrl = Setting(
        "publicUrl", value: "URL", default: "the first listener's address",
        "The URL at which clients reach this server or the balancer before it, the base of `token_uri`.",
        more: "Of a listener on all addresses, 127.0.0.1.")
    static let tokenUri = Setting(
        "tokenUri", value: "URL", default: "`/token` at the public URL",
        "The `token_uri` of service-account files.",
        more: """
            Assertions may name it as their audience, or one of Google's own token URIs, which some SDKs \
            sign whatever the file says.
            """)
    static let proxy = Setting(
        "proxy", as: .list, value: "ADDRESS[/BITS]",
        "A trusted proxy. The PROXY protocol's header names its clients, or the last `X-Forwarded-For`.",
        more: """
            Limits of an address apply to these clients and not to the proxy's own connections. See \
            [below](#one-address).
            """)
    private static let listening = [
        data, listen, listenTls, listenMetrics, cert, key, furtherCert, furtherKey, publicUrl, tokenUri,
        proxy,
    ]

    static let partitions = Setting(
        "partitions", as: .number(1...4096), value: "N", default: "32; 256 in a cluster",
        "Partitions of new data; fixed once it is made.")
    static let loops = Setting(
        "loops", as: .number(1...256), value: "N", default: "one for each core",
        "Event loops. Partitions and connections are spread over them.")
    static let connections = Setting(
        "connections", as: .number(1...Int.max), value: "N", default: "as many as the descriptors allow",
        "Open connections of clients.", more: "See [below](#descriptors).")
    static let connectionsPerAddress = Setting(
        "connectionsPerAddress", as: .number(0...Int.max), value: "N", default: "a quarter of all",
        "Open connections of one address (of IPv6, one /64); 0 is no limit. Any further one is closed.",
        more: """
            0 is for a server that only a balancer reaches, from whose address all connections come. This \
            machine's own addresses are not counted by default; a number counts them too.
            """)
    static let connectionsPerAddressSecond = Setting(
        "connectionsPerAddressSecond", as: .number(0...NodeConfiguration.connectionsPerSecondMax), value: "N",
        default: "500; without a limit if `--connections-per-address` is 0",
        "New connections a second of one address, in bursts of ten seconds' worth; 0 is no limit.",
        more: "This machine's own addresses are not counted by default; a number counts them too.")
    private static let perAddress = 0...ClientLimits.Settings.countMax
    static let addressRegistrationsPerMinute = Setting(
        "addressRegistrationsPerMinute", as: .number(perAddress), value: "N",
        default: ClientLimits.registrationsPerMinute.grouped,
        "Registrations a minute with an app's key from one address; 0 is no limit.")
    static let addressRegistrationsPerDay = Setting(
        "addressRegistrationsPerDay", as: .number(perAddress), value: "N",
        default: ClientLimits.registrationsPerDay.grouped,
        "Registrations a day with an app's key from one address; 0 is no limit.",
        more: "0 for one of the two limits alone is 200,000.")
    static let addressChangesPerMinute = Setting(
        "addressChangesPerMinute", as: .number(perAddress), value: "N",
        default: ClientLimits.changesPerMinute.grouped,
        "Subscriptions a minute that devices at one address change; 0 is no limit.",
        more: "With their own credentials; and 200,000 a day.")
    static let addressCallsPerMinute = Setting(
        "addressCallsPerMinute", as: .number(perAddress), value: "N",
        default: ClientLimits.callsPerMinute.grouped,
        "Other requests a minute of devices at one address; 0 is no limit.",
        more: """
            Streams that begin, acknowledgements, auth tokens, reading and unregistering. Messages of user \
            agents and of senders to a project that is a push service count too \
            ([unifiedpush.md](unifiedpush.md)).
            """)
    static let addressBadAssertionsPerMinute = Setting(
        "addressBadAssertionsPerMinute", as: .number(perAddress), value: "N",
        default: ClientLimits.badAssertionsPerMinute.grouped,
        "Refused assertions a minute from one address before `/token` answers 429; 0 is no limit.")
    static let unreachableSeconds = Setting(
        "unreachableSeconds", as: .number(0...NodeConfiguration.unreachableSecondsMax), value: "N",
        default: "604,800, a week",
        "Seconds to keep a device none of whose push addresses works; 0 is for ever.",
        more: """
            A device that registers an address or listens meanwhile stays \
            ([push.md](push.md#what-the-server-does-with-a-message)). The same on every node.
            """)
    static let snapshotBytes = Setting(
        "snapshotBytes", as: .number(NodeConfiguration.snapshotBytesRange), value: "N", default: "8,388,608",
        "Bytes of journal after which a partition writes a snapshot, unless its last one is longer.")
    static let snapshotSeconds = Setting(
        "snapshotSeconds", as: .number(1...NodeConfiguration.snapshotSecondsMax), value: "N",
        default: "21,600, six hours",
        "Seconds that a change waits for a snapshot at most; partitions take half of that to all.")
    private static let limits = [
        partitions, loops, connections, connectionsPerAddress, connectionsPerAddressSecond,
        addressRegistrationsPerMinute, addressRegistrationsPerDay, addressChangesPerMinute,
        addressCallsPerMinute, addressBadAssertionsPerMinute, unreachableSeconds, snapshotBytes,
        snapshotSeconds,
    ]
}
