import Model

/// A simulated device's address at a push service: the device's client and the number of the address among
/// that client's addresses.
struct PushAddress: Hashable {
    var device: Int
    var kind: Transport.Kind
    var number: Int

    init(device: Int, kind: Transport.Kind, number: Int) {
        self.device = device
        self.kind = kind
        self.number = number
    }

    static let bundleID = "app"

    /// Services of these kinds, for every simulated address of theirs.
    static func services(_ kinds: [Transport.Kind]) -> PushServices {
        var services = PushServices()
        (services.web, services.fcm) = (kinds.contains(.web), kinds.contains(.fcm))
        guard kinds.contains(.apns) else { return services }
        for isSandbox in [false, true] {
            services.apps.insert(APNsAddress.app(isSandbox: isSandbox, bundleID: bundleID))
        }
        return services
    }

    /// `nil` if no simulated device has registered the transport.
    init?(_ transport: Transport) {
        let text: Substring
        switch transport.kind {
        case .web:
            guard let address = WebAddress(packed: transport.address) else { return nil }
            text = address.endpoint.dropFirst(address.origin.count + 1)
        case .apns:
            guard let address = APNsAddress(packed: transport.address) else { return nil }
            text = Substring(String(decoding: address.token, as: UTF8.self))
        case .fcm:
            guard let address = FCMAddress(packed: transport.address) else { return nil }
            text = Substring(address.token)
        }
        let parts = text.split(separator: ":")
        guard parts.count == 2, let device = Int(parts[0]), let number = Int(parts[1]) else { return nil }
        self.init(device: device, kind: transport.kind, number: number)
    }

    /// The kind of most addresses of a device.
    static func kind(ofDevice device: Int) -> Transport.Kind {
        Transport.Kind.allCases[device % Transport.Kind.allCases.count]
    }

    /// Browsers have their subscriptions at `webCount` services. Those of one
    /// app, and those of FCM, share a fate at their service.
    func transport(keepsMessages: Bool, webCount: Int) -> Transport {
        let kinds = Transport.Kind.allCases
        let text = "\(device):\(number)"
        let address: [UInt8]
        switch kind {
        case .web:
            address =
                WebAddress(
                    keyID: 0, p256dh: [UInt8](repeating: 4, count: WebAddress.p256dhBytes),
                    auth: [UInt8](repeating: 1, count: WebAddress.authBytes),
                    endpoint: "https://push-\(device / kinds.count % webCount).example/\(text)"
                ).packed
        case .apns:
            address =
                APNsAddress(
                    isSandbox: device / 6 % 2 == 0, bundleID: PushAddress.bundleID, token: Array(text.utf8)
                ).packed
        case .fcm: address = FCMAddress(token: text).packed
        }
        return Transport(kind: kind, address: address, keepsMessages: keepsMessages)
    }
}
