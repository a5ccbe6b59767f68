/// Settings of a cluster's node, of development, and of secrets.
extension Setting {
    static let engine = Setting(
        "engine", value: "URL", "The PostgreSQL database of this node's cluster, `postgres://…`.",
        more: "See [cluster.md](cluster.md), also for what follows.")
    static let engineFile = Setting(
        "engineFile", value: "FILE", "A file whose first line is the value of `--engine`.",
        more: "`--engine` refuses a URL with a password, which every user of the machine could read.")
    static let furtherEngine = Setting(
        "furtherEngine", as: .list, value: "URL",
        "A further database over which the partitions of a new cluster are spread.",
        more: """
            The same ones in the same order on every node. Semicolons separate them in the variable, which, \
            or the file, is the place for passwords.
            """)
    static let adoptFrom = Setting(
        "adoptFrom", value: "IDENTITY",
        "The home whose further databases this one takes over, as the refusal names it.",
        more: "Once they are taken it changes nothing.")
    static let node = Setting(
        "node", value: "NAME", "The node's name in its cluster; `auto` is the host's name.",
        more: "In a container without a name of its own, the name that its network knows it by.")
    static let roles = Setting(
        "roles", value: "ROLES", default: "`gateway,shard`", "`gateway`, `shard`, or `gateway,shard`.")
    static let peer = Setting(
        "peer", value: "HOST:PORT",
        "The node's address for other nodes, TCP and UDP; `auto:PORT` is the host's name.")
    static let gossip = Setting(
        "gossip", value: "HOST:PORT", default: "the address of `--peer`", "Where to receive gossip, UDP.")
    static let join = Setting(
        "join", as: .list, value: "HOST:PORT", "A node to gossip with first. The database names all others.")
    static let weight = Setting(
        "weight", as: .number(1...64), value: "N", default: "1",
        "The node's share of the partitions relative to other nodes.")
    static let zone = Setting(
        "zone", value: "NAME", "The zone (rack, building) that the node is in, for `cluster status`.")
    static let peerCert = Setting(
        "peerCert", value: "FILE", "The certificate chain for connections between nodes, PEM.",
        more: "The node reads it again when it changes.")
    static let peerKey = Setting("peerKey", value: "FILE", "The private key of that certificate, PEM.")
    static let peerCa = Setting(
        "peerCa", value: "FILE", "The authority that signs the certificates of all nodes, PEM.")
    static let allowSharedPeerCert = Setting(
        "allowSharedPeerCert", as: .flag,
        "Accept nodes whose certificate names no node, though this node's certificate names this node.")
    static let insecurePeers = Setting(
        "insecurePeers", as: .flag,
        "Let nodes speak without TLS beyond this machine. Only in a private network.")
    static let cluster = [
        engine, engineFile, furtherEngine, adoptFrom, node, roles, peer, gossip, join, weight, zone,
        peerCert, peerKey, peerCa, allowSharedPeerCert, insecurePeers,
    ]

    static let dev = Setting(
        "dev", as: .flag, "Development: loopback only, any project, bearer `owner`, no API keys.")
    static let devAnywhere = Setting(
        "devAnywhere", as: .flag,
        "As `--dev`, on any address: **every client that reaches the port may do anything.**",
        more: "For a container whose port is published to this machine only.")
    static let devHost = Setting(
        "devHost", as: .list, value: "NAME",
        "A host that a development server accepts in `Host` and `Origin`.",
        more: """
            It knows this machine's names and addresses (`localhost`, `*.localhost`, 127.0.0.0/8, ::1), \
            Google's names, and those of `--listen`, `--public-url` and `--token-uri`; with `--dev-anywhere` \
            any address as its own. A request with another `Host`, or an `Origin` that is none of them, is \
            403: a web page could be asking.
            """)
    static let secretsKeyFile = Setting(
        "secretsKeyFile", value: "FILE",
        "A file with the key under which the server's own keys are sealed in its database.",
        more: "See [running.md](running.md#secrets).")
    static let secretsKey = Setting(
        "secretsKey", hasFlag: false, "The same key as text.",
        more: "There is no flag for it, which every user of the machine could read.")
    static let looseModes = Setting(
        "looseModes", as: .flag,
        "Accept files and folders of secrets that others could read or change.",
        more:
            "Only on a machine without other users, such as a container: see [running.md](running.md#secrets)."
    )
    static let logLevel = Setting(
        "logLevel", default: "`info`", hasFlag: false,
        "`trace`, `debug`, `info`, `notice`, `warning`, `error`, or `critical`.")
    static let modes = [
        dev, devAnywhere, devHost, secretsKeyFile, secretsKey, looseModes, logLevel,
    ]
}
