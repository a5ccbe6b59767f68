// swift-tools-version: 6.2
// The floors of docs/architecture.md, from the ground up: a target names only what stands below it, and
// `tools/test` builds with `--explicit-target-dependency-import-check error`, so that an import upward fails.
import PackageDescription

/// The checks of exclusive access at run time stay on in debug builds, under which all tests run.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .unsafeFlags(
        ["-enforce-exclusivity=unchecked", "-cross-module-optimization"], .when(configuration: .release)),
]

/// For what the simulated clusters run, and other machines under random tests: most of the time of all tests
/// goes there. A debug build optimizes it, and keeps its laws, assertions and tests' access.
let simulated: [SwiftSetting] =
    settings + [.unsafeFlags(["-O", "-assert-config", "Debug"], .when(configuration: .debug))]

/// `TIDECAST_SANITIZE=1 swift build --sanitize address --scratch-path .build/address --product tidecast`
/// (tools/fuzz): the sanitizer brings an allocator of its own, and two do not go together.
let isSanitized = Context.environment["TIDECAST_SANITIZE"] == "1"
let allocator: [Target.Dependency] = isSanitized ? [] : ["CJemalloc"]

extension Target {
    static func floor(
        _ name: String, on below: [Target.Dependency] = [], settings: [SwiftSetting] = settings
    ) -> Target {
        .target(name: name, dependencies: below, swiftSettings: settings)
    }
    static func tests(
        of name: String, with others: [Target.Dependency] = [], exclude: [String] = []
    ) -> Target {
        .testTarget(
            name: "\(name)Tests", dependencies: [.byName(name: name)] + others, exclude: exclude,
            swiftSettings: settings)
    }
    static func system(_ name: String, pkgConfig: String? = nil, apt: String) -> Target {
        .systemLibrary(name: name, pkgConfig: pkgConfig, providers: [.apt([apt])])
    }
}

/// Products of swift-nio: `NIOCore` and those that are named.
func nio(_ others: String...) -> [Target.Dependency] {
    (["NIOCore"] + others).map { .product(name: $0, package: "swift-nio") }
}

/// A queue: the first element goes in constant time.
let deque = Target.Dependency.product(name: "DequeModule", package: "swift-collections")

let libraries: [Target] = [
    .system("CNghttp2", pkgConfig: "libnghttp2", apt: "libnghttp2-dev"),
    .system("COpenSSL", pkgConfig: "openssl", apt: "libssl-dev"),
    .system("CLZ4", pkgConfig: "liblz4", apt: "liblz4-dev"),
    .system("CXXHash", pkgConfig: "libxxhash", apt: "libxxhash-dev"),
    .system("CZlib", pkgConfig: "zlib", apt: "zlib1g-dev"),
    .system("CRoaring", apt: "libroaring-dev"),
    .system("CSQLite", pkgConfig: "sqlite3", apt: "libsqlite3-dev"),
    .system("CPQ", pkgConfig: "libpq", apt: "libpq-dev"),
    .system("CCurl", pkgConfig: "libcurl", apt: "libcurl4-openssl-dev"),
    .system("CEpoll", apt: "libc6-dev"),
    .system("CResolv", apt: "libc6-dev"),
    .system("CJemalloc", pkgConfig: "jemalloc", apt: "libjemalloc-dev"),
    .target(name: "CSimdjson", linkerSettings: [.linkedLibrary("simdjson")]),
]

let model: [Target] = [
    .floor("Model", settings: simulated),
    .floor("Bytes", on: ["CLZ4", "CXXHash"], settings: simulated),
    .floor("HTTPMessages", on: ["CZlib"]),
    .floor("RegistrationIDs", on: ["Model", "COpenSSL"]),
]

let core: [Target] = [
    .floor("Journal", on: ["Model", "Bytes", "CXXHash", deque], settings: simulated),
    .floor("Quotas", on: ["Model", "Bytes"], settings: simulated),
    .floor("Placement", on: ["Model"], settings: simulated),
    .floor(
        "Partitions", on: ["Model", "Bytes", "Journal", "Placement", "CRoaring", deque], settings: simulated),
    .floor("Membership", on: ["Model", "Bytes"], settings: simulated),
    .floor("Ownership", on: ["Model", "Bytes", "Journal", "Placement"], settings: simulated),
    .floor(
        "Routing", on: ["Model", "Bytes", "Placement", "Partitions", "Quotas", deque], settings: simulated),
    .floor(
        "NodeCore",
        on: [
            "Model", "Bytes", "Journal", "Placement", "Partitions", "Quotas", "Membership", "Ownership",
            "Routing", deque,
        ], settings: simulated),
]

let push: [Target] = [
    .floor("PushMessages", on: ["Model", "HTTPMessages", "COpenSSL", "CSimdjson"]),
    .floor("PushScheduling", on: ["Model", deque], settings: simulated),
    .floor("PushDesk", on: ["Model", "PushMessages", "PushScheduling"], settings: simulated),
]

let catalog: [Target] = [
    .floor("Credentials", on: ["Model", "Bytes", "RegistrationIDs", "PushMessages", "COpenSSL"]),
    .floor(
        "Catalog",
        on: [
            "Model", "Bytes", "RegistrationIDs", "Journal", "Credentials", "Ownership", "Quotas", "NodeCore",
            "COpenSSL",
        ]),
]

/// Files for browsers, as code, so that the program is one file. `client` is a link to Clients/JavaScript,
/// because SwiftPM wants a target's resources below the target's folder.
let webFiles =
    ["demo.html", "demo.css", "demo.js", "client/messaging.js", "client/messaging-sw.js"]
    + ["registration", "server", "storage", "stream", "tabs", "time", "topics"]
    .map { "client/messaging/\($0).js" }

let api: [Target] = [
    .floor(
        "FCMAPI",
        on: [
            "Model", "HTTPMessages", "RegistrationIDs", "PushMessages", "Credentials", "Partitions",
            "Routing", "Quotas", "WebClient", "CSimdjson", "COpenSSL", deque,
        ]),
    .target(
        name: "WebClient", dependencies: ["HTTPMessages", "CXXHash"], exclude: ["Resources/client/check"],
        resources: webFiles.map { .embedInCode("Resources/\($0)") }, swiftSettings: settings),
]

let shells: [Target] = [
    .floor("HTTP2", on: ["CNghttp2"]),
    .floor("TLS", on: ["COpenSSL"] + nio()),
    .floor("Listener", on: ["Model", "HTTPMessages", "Quotas"] + nio("NIOPosix")),
    .floor(
        "Edge",
        on: ["Model", "HTTPMessages", "HTTP2", "TLS", "Listener", deque]
            + nio("NIOPosix", "NIOHTTP1", "NIOWebSocket")),
    .floor("EngineDriver", on: ["Model", "Journal"]),
    .floor("SQLiteEngine", on: ["Model", "Bytes", "Journal", "CSQLite"]),
    .floor("PeerLink", on: ["Model", "Bytes", "TLS", "Listener"] + nio("NIOPosix")),
    .floor("PostgresEngine", on: ["Model", "Bytes", "Journal", "Ownership", "CPQ"]),
    .floor("PushClient", on: ["Model", "PushScheduling", "CCurl"]),
    .floor(
        "APNsClient", on: ["Model", "PushMessages", "PushScheduling", "HTTP2", "TLS"] + nio("NIOPosix"),
        settings: simulated),
]

let node: [Target] = [
    .floor(
        "Node",
        on: [
            "Model", "Bytes", "HTTPMessages", "RegistrationIDs", "PushMessages", "Journal", "Credentials",
            "Quotas",
            "Partitions", "Routing", "EngineDriver", "FCMAPI", "Catalog", "Edge", "Listener", "Membership",
            "Ownership", "PushDesk", "PushScheduling",
            "NodeCore", "PeerLink", "PostgresEngine",
            "TLS", "PushClient", "APNsClient",
            "SQLiteEngine", "COpenSSL",
            .product(name: "Logging", package: "swift-log"),
        ] + nio("NIOPosix"))
]

let simulation: [Target] = [
    .floor("VirtualTime", on: ["Model"], settings: simulated),
    .floor("MemoryEngine", on: ["Model", "Journal"], settings: simulated),
    .floor(
        "Simulator",
        on: [
            "VirtualTime", "MemoryEngine", "Model", "Bytes", "PushMessages", "Journal", "Quotas",
            "Membership", "Placement", "Partitions", "Ownership", "Routing", "PushDesk", "PushScheduling",
            "NodeCore", "Catalog",
        ], settings: simulated),
]

let programs: [Target] = [
    .executableTarget(
        name: "tidecast",
        dependencies: [
            "HTTPMessages", "FCMAPI", "Catalog", "Node", "CommandOutput", "CResolv", "TLS",
            .product(name: "ArgumentParser", package: "swift-argument-parser"),
            .product(name: "Configuration", package: "swift-configuration"),
            .product(name: "Logging", package: "swift-log"),
            .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            .product(name: "UnixSignals", package: "swift-service-lifecycle"),
        ] + allocator + nio("NIOPosix", "NIOHTTP1"),
        swiftSettings: settings + (isSanitized ? [.define("TIDECAST_SANITIZE")] : []),
        linkerSettings: isSanitized ? [] : [.linkedLibrary("jemalloc")]),
    .floor("CommandOutput"),
    .executableTarget(
        name: "tidecast-bench",
        dependencies: [
            "LoadGenerator", "CommandOutput",
            .product(name: "ArgumentParser", package: "swift-argument-parser"),
        ],
        swiftSettings: settings),
    .floor("LoadGenerator", on: ["Model", "HTTP2", "CEpoll"]),
    .executableTarget(name: "simulate", dependencies: ["Simulator"], swiftSettings: settings),
]

/// Measuring programs, built only on request: `TIDECAST_BENCH=1 swift build -c release --product core-bench`.
let isBench = Context.environment["TIDECAST_BENCH"] == "1"
let benches: [Target] =
    isBench
    ? [
        .executableTarget(
            name: "core-bench",
            dependencies: ["Model", "Journal", "Placement", "Partitions", "SQLiteEngine"],
            swiftSettings: settings),
        .executableTarget(name: "gossip-bench", dependencies: ["Simulator"], swiftSettings: settings),
        .executableTarget(name: "push-bench", dependencies: ["PushClient"], swiftSettings: settings),
        .executableTarget(
            name: "apns-bench", dependencies: ["APNsClient", "PushScheduling"], swiftSettings: settings),
    ] : []

/// `FUZZ=1 swift build --sanitize fuzzer --scratch-path .build/fuzz --product fuzz`; a fuzzer brings its own
/// entry point, which would break every other build.
let fuzzers: [Target] =
    Context.environment["FUZZ"] == "1"
    ? [
        .executableTarget(
            name: "fuzz",
            dependencies: [
                "Model", "Bytes", "HTTPMessages", "RegistrationIDs", "PushMessages", "Journal", "Partitions",
                "Membership", "Ownership", "Routing", "FCMAPI", "Edge", "PeerLink", "Listener",
            ] + nio(),
            swiftSettings: settings)
    ] : []

let tests: [Target] = [
    .tests(of: "Model"),
    .tests(of: "Bytes", with: ["Model"]),
    .tests(of: "CommandOutput"),
    .tests(of: "RegistrationIDs", with: ["Model"]),
    .tests(of: "PushMessages", with: ["Model", "HTTPMessages", "COpenSSL"]),
    .tests(of: "Journal", with: ["Model", "Bytes", "MemoryEngine"]),
    .tests(of: "Credentials", with: ["Model", "Bytes", "RegistrationIDs"]),
    .target(
        name: "StoryTelling", dependencies: ["Model", "Journal", "Partitions", "VirtualTime"],
        path: "Tests/Support/StoryTelling", swiftSettings: settings),
    .tests(of: "Quotas", with: ["Model", "StoryTelling", "VirtualTime"], exclude: ["Stories"]),
    .tests(of: "Placement", with: ["Model"]),
    .target(name: "StoredFormats", path: "Tests/Support/StoredFormats", swiftSettings: settings),
    .tests(
        of: "Membership", with: ["Model", "Bytes", "Simulator", "StoredFormats", "StoryTelling"],
        exclude: ["Stories"]),
    .tests(
        of: "Ownership",
        with: ["Model", "Journal", "Placement", "MemoryEngine", "StoryTelling", "VirtualTime"],
        exclude: ["Stories"]),
    .tests(
        of: "Partitions",
        with: ["Model", "Bytes", "Journal", "Placement", "MemoryEngine", "StoredFormats", "StoryTelling"],
        exclude: ["OutboxStories"]),
    .tests(
        of: "Routing",
        with: ["Model", "Bytes", "Placement", "Partitions", "Quotas", "StoredFormats", "StoryTelling"],
        exclude: ["StreamStories"]),
    .tests(
        of: "NodeCore",
        with: [
            "Model", "Bytes", "Journal", "MemoryEngine", "Placement", "Partitions", "Quotas", "Membership",
            "Ownership", "Routing",
        ]),
    .tests(
        of: "FCMAPI",
        with: [
            "Model", "HTTPMessages", "RegistrationIDs", "PushMessages", "Credentials", "Partitions",
            "Routing", "Quotas", "CZlib",
        ]),
    .tests(of: "TLS", with: ["COpenSSL"]),
    .tests(of: "Listener", with: ["Model", "HTTPMessages"]),
    .tests(
        of: "Edge",
        with: ["Model", "HTTPMessages", "Listener"] + nio("NIOPosix", "NIOEmbedded", "NIOHTTP1")),
    .target(
        name: "EngineContract", dependencies: ["Model", "Journal"], path: "Tests/Support/EngineContract",
        swiftSettings: settings),
    .tests(
        of: "SQLiteEngine",
        with: ["Model", "Journal", "EngineDriver", "MemoryEngine", "CSQLite", "EngineContract"]),
    .tests(
        of: "PeerLink",
        with: ["Model", "Bytes", "TLS", "Listener", "StoredFormats"] + nio("NIOPosix")),
    .tests(of: "PostgresEngine", with: ["Model", "Journal", "Ownership", "EngineContract", "CPQ"]),
    .tests(
        of: "Catalog",
        with: [
            "Model", "Bytes", "RegistrationIDs", "Journal", "Quotas", "MemoryEngine", "Credentials",
            "NodeCore",
        ]),
    .tests(
        of: "Node",
        with: [
            "Model", "MemoryEngine", "PushMessages", "Credentials", "FCMAPI", "Catalog", "Partitions",
            "PushDesk", "PushScheduling", "NodeCore", "PushClient",
            .product(name: "Logging", package: "swift-log"),
        ] + nio("NIOPosix")),
    .tests(of: "PushScheduling", with: ["Model"]),
    .tests(of: "PushDesk", with: ["Model", "PushMessages", "PushScheduling"]),
    .target(
        name: "PushStandIn", dependencies: ["HTTP2", "TLS"] + nio("NIOPosix"),
        path: "Tests/Support/PushStandIn",
        swiftSettings: settings),
    .tests(of: "PushClient", with: ["PushStandIn"]),
    .tests(of: "APNsClient", with: ["PushScheduling", "PushStandIn"]),
    .tests(of: "LoadGenerator", with: ["Model"]),
    .tests(
        of: "Simulator",
        with: [
            "Model", "PushMessages", "Bytes", "Journal", "Membership", "Ownership", "Quotas",
            "Partitions", "Routing", "PushDesk", "PushScheduling", "NodeCore", "StoryTelling",
        ], exclude: ["ClusterStories"]),
    .testTarget(name: "HouseRulesTests", swiftSettings: settings),
]

/// A target's folder is `Sources/FLOOR/TARGET`, and its tests' folder is `Tests/FLOOR/TARGETTests`. The floor
/// `Node` is one target.
let floors: [(name: String, targets: [Target])] = [
    ("Libraries", libraries), ("Model", model), ("Core", core), ("Push", push), ("Catalog", catalog),
    ("API", api), ("Shells", shells), ("Simulation", simulation), ("Programs", programs + benches + fuzzers),
]
for (floor, targets) in floors {
    for target in targets {
        target.path = "Sources/\(floor)/\(target.name)"
        for its in tests where its.name == "\(target.name)Tests" { its.path = "Tests/\(floor)/\(its.name)" }
    }
}

/// `TIDECAST_TESTS=0` leaves the tests out, for a build where their folders are not: that of the image.
let isWithTests = Context.environment["TIDECAST_TESTS"] != "0"

let package = Package(
    name: "tidecast",
    products: [
        .executable(name: "tidecast", targets: ["tidecast"]),
        .executable(name: "tidecast-bench", targets: ["tidecast-bench"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-collections.git", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-nio.git", from: "2.101.0"),
        .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-configuration.git", from: "1.4.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
    ],
    targets: floors.flatMap(\.targets) + node + (isWithTests ? tests : []),
    cxxLanguageStandard: .cxx17
)
