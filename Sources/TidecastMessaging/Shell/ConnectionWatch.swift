import Foundation

#if canImport(Network)
    import Network
#endif

#if canImport(Network)
    /// Wakes the engine when the network comes back and when the app comes to the front.
    // Safe to share, because nothing changes after `init`, and only `deinit` uses the variables.
    final class ConnectionWatch: @unchecked Sendable {
        private let monitor = NWPathMonitor()
        private var observers: [any NSObjectProtocol] = []

        init(_ engine: Engine) {
            monitor.pathUpdateHandler = { [weak engine] path in
                if path.status == .satisfied { engine?.wake() }
            }
            monitor.start(queue: DispatchQueue(label: "tidecast.messaging.network"))
            for system in ["UI", "NS"] {
                let name = Notification.Name("\(system)ApplicationDidBecomeActiveNotification")
                observers.append(
                    NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) {
                        [weak engine] _ in engine?.wake()
                    })
            }
        }

        deinit {
            monitor.cancel()
            for observer in observers { NotificationCenter.default.removeObserver(observer) }
        }
    }
#else
    /// Elsewhere than on Apple's systems only timers, the stream and the app itself wake the engine.
    final class ConnectionWatch: Sendable { init(_ engine: Engine) {} }
#endif
