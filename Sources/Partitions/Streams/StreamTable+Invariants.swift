import Model

extension StreamTable {
    /// The first law of the streams that does not hold; `nil` where all do.
    var brokenInvariant: String? {
        var (live, cutOff) = (0, 0)
        for (index, attachment) in attachments {
            guard let link = links[attachment.stream.gateway] else {
                return "device \(index) listens at a gateway without a link"
            }
            let (isInLive, isInCutOff) = (link.live.contains(index), link.cutOff.contains(index))
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
            case .beginning, .reading, .losing, .behind:
                if isInLive || isInCutOff { return "device \(index) is neither live nor cut off at its link" }
            }
        }
        for (gateway, link) in links {
            if let broken = link.brokenInvariant { return "gateway \(gateway.rawValue): \(broken)" }
            live -= link.liveCount
            cutOff -= link.cutOff.count
        }
        if live != 0 || cutOff != 0 { return "links count other streams than there are" }
        return stuck.isEmpty || mayBeStuck ? nil : "nobody asks the gateways of those that are cut off"
    }
}

extension StreamTable.Link {
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
