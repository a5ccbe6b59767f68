extension PushTable {
    /// The first invariant that does not hold; `nil` if all do.
    var brokenInvariant: String? {
        if earliest != later.keys.min() { return "the earliest tick is not the earliest" }
        let queued = Set(queue)
        let parked = Set(closed.values.flatMap(\.devices))
        if devices.values.count(where: { $0.state == .reading }) != readings.count {
            return "the devices that wait for bodies are counted wrong"
        }
        for (index, device) in devices {
            switch device.state {
            case .queued: if !queued.contains(index) { return "device \(index) is not in the queue" }
            case .waiting(let tick):
                if !(later[tick]?.contains(index) ?? false) { return "nothing wakes device \(index)" }
            case .sending(let number):
                if sendings[number]?.index != index { return "device \(index) has nothing at the sender" }
            case .parked: if !parked.contains(index) { return "device \(index) is parked nowhere" }
            case .reading: break
            }
        }
        let taken = sendings.values.map(\.origin) + readings.values
        if Dictionary(taken.map { ($0, 1) }, uniquingKeysWith: +) != slots.byOrigin {
            return "the slots of a service are counted wrong"
        }
        if Dictionary(taken.map { ($0.project, 1) }, uniquingKeysWith: +) != slots.byProject {
            return "the slots of a project are counted wrong"
        }
        if closed.values.contains(where: \.isEmpty) { return "a service is closed to nobody" }
        for (number, sending) in sendings {
            // A device that ended meanwhile is gone from the table.
            if let state = devices[sending.index]?.state, state != .sending(number: number) {
                return "message \(number) is at the sender, and its device does not wait for it"
            }
        }
        return nil
    }
}
