// swift-tools-version: 6.2
// The clients for apps, apart from the server's package: an app that depends on this one resolves nothing more.
// There are no unsafe flags, because SwiftPM refuses a dependency that has some.
import PackageDescription

let settings: [SwiftSetting] = [.swiftLanguageMode(.v6)]

let package = Package(
    name: "tidecast-clients",
    platforms: [.macOS(.v13), .iOS(.v16), .tvOS(.v16), .watchOS(.v9)],
    products: [
        .library(name: "TidecastMessaging", targets: ["TidecastMessaging"]),
        .executable(name: "messaging-sample", targets: ["messaging-sample"]),
    ],
    targets: [
        .target(name: "TidecastMessaging", swiftSettings: settings),
        .executableTarget(
            name: "messaging-sample", dependencies: ["TidecastMessaging"], swiftSettings: settings),
        .testTarget(
            name: "TidecastMessagingTests", dependencies: ["TidecastMessaging"], swiftSettings: settings),
    ]
)
