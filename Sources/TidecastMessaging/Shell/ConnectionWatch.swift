import Foundation

#if canImport(Network)
    import Network
#endif

/// Wakes the engine when the network comes back and when the app comes to the front. Elsewhere than on
/// Apple's systems only timers, the stream and the app itself do.
final class ConnectionWatch: Sendable {
    #if canImport(Network)
        private let monitor = NWPathMonitor()

        init(_ engine: Engine) {
            monitor.pathUpdateHandler = { [weak engine] path in
                if path.status == .satisfied { engine?.wake() }
            }
            monitor.start(queue: DispatchQueue(label: "tidecast.messaging.network"))
            for name in [
                "UIApplicationDidBecomeActiveNotification", "NSApplicationDidBecomeActiveNotification",
            ] {
                NotificationCenter.default.addObserver(
                    forName: Notification.Name(name), object: nil, queue: nil
                ) { [weak engine] _ in engine?.wake() }
            }
        }

        deinit { monitor.cancel() }
    #else
        init(_ engine: Engine) {}
    #endif
}
