import Model
import NodeCore

// Apps that tell a token with the wrong one of Apple's environments.

extension ClusterSimulation {
    /// Whether Apple does not know the token in the environment to which the message went: the app has told
    /// the wrong one, or the message went to the other one.
    func isMistold(_ transport: Transport) -> Bool {
        guard let told = PushAddress(transport), let address = APNsAddress(packed: transport.address),
            let first = APNsAddress(packed: told.transport(keepsMessages: false, webCount: 1).address)
        else { return false }
        var random = SeededGenerator(seed: options.seed ^ UInt64(told.device) << 32 ^ UInt64(told.number))
        let isWrong = random.next(upperBound: UInt64(1000)) < options.mistoldPerMille
        return (address.isSandbox != first.isSandbox) != isWrong
    }

    /// What loops hear of their projects' services: `nil` where apps tell the right environments, so that
    /// nobody needs to hear.
    var pushServicesTold: [ProjectNumber: PushServices]? {
        guard options.mistoldPerMille > 0 else { return nil }
        var services = PushServices()
        (services.web, services.fcm, services.triesOtherEnvironment) = (true, true, true)
        services.apps = Set([false, true].map { APNsAddress.app(isSandbox: $0, bundleID: "app") })
        return Dictionary(
            uniqueKeysWithValues: (0...options.projectCount).map { (ProjectNumber(UInt32($0)), services) })
    }
}
