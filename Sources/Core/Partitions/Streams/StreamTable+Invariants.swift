import Model

extension StreamTable {
    /// The first invariant of the streams that does not hold; `nil` if all do.
    var brokenInvariant: String? {
        var (live, cutOff, waiting, bodiless, records) = (0, 0, 0, 0, 0)
        for (index, attachment) in attachments {
            guard let link = links[attachment.stream.gateway] else {
                return "device \(index) listens at a gateway without a link"
            }
            let (isInLive, isInCutOff) = (link.live.contains(index), link.cutOff.contains(index))
            switch attachment.state {
            case .waiting: waiting += 1
            case .bodiless: bodiless += 1
            case .reading(let awaited): records += awaited
            default: break
            }
            if !link.agrees(index, attachment.state) {
                return "device \(index) and its link do not agree on whether it waits for its turn"
            }
            switch attachment.state {
            case .live(let since):
                live += 1
                if !isInLive || isInCutOff { return "device \(index) is live, and its link does not say so" }
                if since > link.sent { return "device \(index) is live since a frame that was not sent" }
            case .cutOff:
                cutOff += 1
                if isInLive || !isInCutOff {
                    return "device \(index) is cut off, and its link does not say so"
                }
            case .beginning, .waiting, .bodiless, .reading, .losing, .behind:
                if isInLive || isInCutOff { return "device \(index) is neither live nor cut off at its link" }
            }
        }
        for (gateway, link) in links {
            if let broken = link.brokenInvariant { return "gateway \(gateway.rawValue): \(broken)" }
            live -= link.liveCount
            cutOff -= link.cutOff.count
        }
        if live != 0 || cutOff != 0 { return "links count other streams than there are" }
        if waiting != waitingCount || waiting != links.values.reduce(0, { $0 + $1.waiting.count })
            || bodiless != bodilessCount || bodiless != links.values.reduce(0, { $0 + $1.bodiless.count })
        {
            return "streams that wait for their turn are counted wrongly"
        }
        if records != recordsAwaited { return "records for which streams wait are counted wrongly" }
        return stuck.isEmpty || mayBeStuck ? nil : "nobody asks the gateways of those that are cut off"
    }
}

extension StreamTable.Link {
    fileprivate func agrees(_ index: UInt32, _ state: StreamTable.Attachment.State) -> Bool {
        switch state {
        case .waiting: waiting.contains(index) && !bodiless.contains(index)
        case .bodiless: bodiless.contains(index) && !waiting.contains(index)
        default: !waiting.contains(index) && !bodiless.contains(index)
        }
    }

    var brokenInvariant: String? {
        if liveCount != live.count { return "its live streams are counted wrongly" }
        if processed > sent { return "it has confirmed what was not sent" }
        var number = processed
        var position = processedPosition
        for frame in outstanding {
            if frame.number <= number || frame.number > sent { return "its frames are out of order" }
            if frame.position < position { return "the positions of its frames fall" }
            (number, position) = (frame.number, frame.position)
        }
        if !cutOff.isEmpty, outstanding.isEmpty { return "nothing brings back who was cut off" }
        return nil
    }
}
