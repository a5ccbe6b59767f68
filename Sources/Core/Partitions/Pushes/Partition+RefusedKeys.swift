import Model

// Sends to devices that only a service reaches which refuses the project's key (rule: refused-keys-are-told).

extension Partition {
    /// Clients choose some of the services. What is over this bound is accepted, and waits.
    public static let refusedKeysMax = 4096

    func onKeyRefused(_ origin: PushOrigin, until: MonotonicTime?, _ now: Instant) {
        #if DEBUG
            if options.planted.contains(.keepRefusedKeys), until == nil { return }
        #endif
        refusedKeys = refusedKeys.filter { $0.value > now.monotonic }
        guard refusedKeys.count < Partition.refusedKeysMax || until == nil else { return }
        refusedKeys[origin] = until
    }

    /// Whether each service that may reach the device refuses the project's key, and no stream reaches the
    /// device.
    func isKeyRefused(for index: UInt32, _ now: Instant) -> Bool {
        guard !refusedKeys.isEmpty, !mayBeListening(index, now), let stored = state.transports[index]
        else { return false }
        let served = stored.filter { !$0.isGone && mayServe($0.transport, of: index) }
        return !served.isEmpty && served.allSatisfy { isRefused(origin(of: $0, index), now) }
    }

    private func isRefused(_ origin: PushOrigin, _ now: Instant) -> Bool {
        guard let until = refusedKeys[origin] else { return false }
        #if DEBUG
            if options.planted.contains(.keepRefusedKeys) { return true }
        #endif
        return now.monotonic < until
    }

    /// Whether the device has a stream here. A stream may still be on its way to a new owner.
    func mayBeListening(_ index: UInt32, _ now: Instant) -> Bool {
        streams.attachment(index) != nil
            || options.streamsOutliveOwners && now.monotonic.since(begunAt) < options.listenersReturn
    }
}
