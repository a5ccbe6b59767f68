// The table of routes. Of the rows in one folder the first is found first: the send is the hot path.

extension Route {
    static let all: [Route] =
        messages + registrations + subscriptions + installations + instances + tokens + userAgents + node
        + cluster + keys + projects + pushes + emulator

    static let tree = RouteTree(all)

    private static let messages: [Route] = [
        Route(
            .post, "/v1/projects/{project}/messages:send", to: .send, by: .backend, body: .message,
            about: "Send a message to a topic, a condition, a token or an installation."),
        Route(
            .get, "/v1/projects/{project}/messages/{message}", to: .showMessage, by: .backend,
            about: "Show the answers of push services to a message."),
        Route(
            .get, "/v1/projects/{project}/topics", to: .listTopics, by: .backend, query: "pageSize pageToken",
            about: "List topics with the numbers of their members."),
        Route(
            .get, "/v1/projects/{project}/topics/{topic}", to: .showTopic, by: .backend,
            about: "Show the number of a topic's members."),
        Route(
            .get, "/v1/projects/{project}/quotas", to: .showQuotas, by: .backend,
            about: "Show the project's quotas, and what is left of each."),
        Route(
            .get, "/v1/projects/{project}/webPushKey", to: .showWebPushKey, by: .app, query: "key",
            about: "Show the key under which a page subscribes to Web Push."),
    ]

    private static let registrations: [Route] = [
        Route(
            .post, "/v1/projects/{project}/registrations", to: .register, by: .app, body: .json, query: "key",
            about: "Register a device, or the push service's address of an installation."),
        Route(
            .get, "/v1/projects/{project}/registrations", to: .listRegistrations, by: .backend,
            query: "pageSize pageToken", about: "List devices."),
        Route(
            .get, "/v1/projects/{project}/registrations/{registration}:listen", to: .listen, by: .device,
            query: "credential lastEventId", about: "Open the device's stream of server-sent events."),
        Route(
            .post, "/v1/projects/{project}/registrations/{registration}:acknowledge", to: .acknowledge,
            by: .device,
            body: .json, query: "credential", about: "Acknowledge all events up to one."),
        Route(
            .get, "/v1/projects/{project}/registrations/{registration}", to: .showRegistration, by: .device,
            query: "credential", about: "Show a device, its addresses and its newest pushes."),
        Route(
            .patch, "/v1/projects/{project}/registrations/{registration}", to: .patchRegistration,
            by: .device,
            body: .json, about: "Change the push service's address of an installation."),
        Route(
            .delete, "/v1/projects/{project}/registrations/{registration}", to: .unregister, by: .device,
            query: "credential", about: "End a device, or its address for Web Push."),
    ]

    private static let subscriptions: [Route] = [
        Route(
            .post, "/v1/projects/{project}/registrations/{registration}/topicSubscriptions",
            to: .createSubscription, by: .backend, body: .json, query: "topic_name",
            about: "Subscribe a device that is not subscribed."),
        Route(
            .get, "/v1/projects/{project}/registrations/{registration}/topicSubscriptions",
            to: .listSubscriptions, by: .device, query: "pageSize pageToken credential",
            about: "List a device's topics."),
        Route(
            .post,
            "/v1/projects/{project}/registrations/{registration}/topicSubscriptions/{topic}:subscribe",
            to: .subscribe, by: .device, query: "credential",
            about: "Subscribe a device, as device SDKs do."),
        Route(
            .post,
            "/v1/projects/{project}/registrations/{registration}/topicSubscriptions/{topic}:unsubscribe",
            to: .unsubscribe, by: .device, query: "credential",
            about: "End a subscription, as device SDKs do."),
        Route(
            .get, "/v1/projects/{project}/registrations/{registration}/topicSubscriptions/{topic}",
            to: .showSubscription, by: .device, query: "credential", about: "Show a subscription."),
        Route(
            .patch, "/v1/projects/{project}/registrations/{registration}/topicSubscriptions/{topic}",
            to: .patchSubscription, by: .backend, body: .json, query: "allowMissing",
            about: "Show a subscription, and create it if it may be missing."),
        Route(
            .delete, "/v1/projects/{project}/registrations/{registration}/topicSubscriptions/{topic}",
            to: .endSubscription, by: .backend, query: "allow_missing", about: "End a subscription."),
    ]

    private static let installations: [Route] = {
        let rows = [
            Route(
                .post, "/v1/projects/{project}/installations", to: .createInstallation, by: .app, body: .json,
                query: "key", about: "Create an installation, which is a device."),
            Route(
                .delete, "/v1/projects/{project}/installations/{installation}", to: .deleteInstallation,
                by: .refreshToken, about: "End an installation and its device."),
            Route(
                .post, "/v1/projects/{project}/installations/{installation}/authTokens:generate",
                to: .generateAuthToken, by: .refreshToken, body: .json, about: "Get another auth token."),
        ]
        // The iOS SDK ends these paths with a slash.
        return rows + [
            .alias("/v1/projects/{project}/installations/", of: rows[0]),
            .alias("/v1/projects/{project}/installations/{installation}/", of: rows[1]),
            .alias(
                "/v1/projects/{project}/installations/{installation}/authTokens:generate/", of: rows[2]),
        ]
    }()

    private static let instances: [Route] = {
        let info = Route(
            .get, "/iid/info/{token}", to: .tokenInfo, by: .backend, query: "details",
            about: "Show what a token is, and its topics.")
        return [
            Route(
                .post, "/iid/v1:batchAdd", to: .batchAdd, by: .backend, body: .batch,
                about: "Subscribe up to 1,000 tokens to a topic."),
            Route(
                .post, "/iid/v1:batchRemove", to: .batchRemove, by: .backend, body: .batch,
                about: "End the subscriptions of up to 1,000 tokens to a topic."),
            Route(
                .post, "/iid/register", to: .classicRegister, by: .phone, body: .form,
                about: "Subscribe the device itself to a topic, or end that."),
            // firebase-php leaves `info` out.
            info, .alias("/iid/{token}", of: info),
            Route(
                .post, "/iid/v1/{token}/rel/topics/{topic}", to: .addRelation, by: .backend,
                about: "Subscribe one token to a topic."),
            Route(
                .delete, "/iid/v1/{token}/rel/topics/{topic}", to: .removeRelation, by: .backend,
                about: "End the subscription of one token to a topic."),
        ]
    }()

    private static let tokens: [Route] = {
        let exchange = Route(
            .post, "/token", to: .exchangeToken, by: .anyone, body: .form,
            about: "Exchange a service account's signed assertion for an access token.")
        return [
            exchange,
            // The paths of Google's token URIs: see `TokenExchange.googleURIs`.
            .alias("/oauth2/v4/token", of: exchange), .alias("/oauth2/v3/token", of: exchange),
            .alias("/o/oauth2/token", of: exchange),
            Route(
                .post, "/checkin", to: .checkIn, by: .anyone, body: .json, about: "Get a login for a phone."),
            Route(
                .post, "/register", to: .registerAppToken, by: .phone, body: .shortForm,
                about: "Bind the token of an installation to a phone's login."),
        ]
    }()

    private static let userAgents: [Route] = {
        let socket = Route(
            .get, "/push/{project}", to: .openSocket, by: .anyone,
            about: "Open the WebSocket of a user agent.")
        return [
            socket, .alias("/push/{project}/", of: socket),
            Route(
                .post, "/push/v1/{subscription}", to: .postPush, by: .sender, body: .encrypted,
                about: "Send a message to a user agent's subscription."),
            Route(
                .get, "/push/v1/{subscription}", to: .discoverPush, by: .anyone,
                about: "Show that the URL is one of UnifiedPush."),
        ]
    }()

    private static let node: [Route] = {
        let rows = [
            Route(.get, "/healthz", to: .showHealth, by: .anyone, about: "Answer while the process lives."),
            Route(
                .get, "/readyz", to: .showReadiness, by: .anyone, query: "unready",
                about: "Answer whether the node takes traffic."),
            Route(
                .get, "/metrics", to: .showMetrics, by: .anyone,
                about: "Show the node's metrics in Prometheus' text format, to operators."),
        ]
        // These paths exist for other methods too: the answer is 405.
        return rows + [
            .alias("/healthz", of: rows[0], .others), .alias("/readyz", of: rows[1], .others),
            .alias("/metrics", of: rows[2], .others),
            Route(.get, "/v1/openapi.json", to: .showDocument, by: .anyone, about: "Show this document."),
        ]
    }()

    private static let cluster: [Route] = [
        Route(
            .get, "/admin/cluster", to: .showCluster, by: .operators(.read),
            about: "Show how the node sees its cluster."),
        Route(
            .post, "/admin/cluster/drain", to: .drainNode, by: .operators(.operate), body: .json,
            about: "Take a node out."),
        Route(
            .post, "/admin/cluster/uncordon", to: .uncordonNode, by: .operators(.operate), body: .json,
            about: "Let a node come back."),
        Route(
            .post, "/admin/cluster/refuse", to: .refuseCertificate, by: .operators(.operate), body: .json,
            about: "Let all nodes refuse a certificate."),
        Route(
            .post, "/admin/cluster/accept", to: .acceptCertificate, by: .operators(.operate), body: .json,
            about: "Let all nodes accept a refused certificate again."),
        Route(
            .get, "/admin/audit", to: .showAudit, by: .operators(.read), query: "limit",
            about: "Show the newest entries of the audit log."),
    ]

    private static let keys: [Route] = [
        Route(
            .get, "/admin/keys", to: .listCredentials, by: .operators(.read), query: "project",
            about: "List credentials."),
        Route(
            .post, "/admin/keys", to: .createCredential, by: .operators(.admin), body: .json,
            about: "Create a credential of a project, or an operator's token."),
        Route(
            .post, "/admin/keys/{credential}/revoke", to: .revokeCredential, by: .operators(.admin),
            body: .json,
            about: "End a credential now."),
        Route(
            .post, "/admin/keys/{credential}/expire", to: .expireCredential, by: .operators(.admin),
            body: .json,
            about: "Set a credential's end."),
        Route(
            .post, "/admin/keys/{credential}/rotate", to: .rotateCredential, by: .operators(.admin),
            body: .json,
            about: "Create a credential's successor."),
        Route(
            .get, "/admin/serverKeys", to: .listServerKeys, by: .operators(.read),
            about: "List the server's own keys, without their secrets."),
        Route(
            .post, "/admin/serverKeys/signing/rotate", to: .rotateSigningKey, by: .operators(.admin),
            body: .json,
            about: "Replace the key that signs access tokens."),
        Route(
            .post, "/admin/serverKeys/registration/rotate", to: .rotateRegistrationKey,
            by: .operators(.admin),
            body: .json, about: "Replace the key under which devices register."),
        Route(
            .post, "/admin/serverKeys/registration/retire", to: .retireRegistrationKey,
            by: .operators(.admin),
            body: .json, about: "End all devices that were registered under a key."),
    ]

    private static let projects: [Route] = [
        Route(.get, "/admin/projects", to: .listProjects, by: .operators(.read), about: "List projects."),
        Route(
            .post, "/admin/projects", to: .createProject, by: .operators(.admin), body: .json,
            about: "Create a project."),
        Route(
            .delete, "/admin/projects/{project}", to: .deleteProject, by: .operators(.admin),
            about: "Delete a project."),
        Route(
            .post, "/admin/projects/{project}/keys", to: .createProjectCredential, by: .operators(.admin),
            body: .json, about: "Create a credential of the project."),
        Route(
            .get, "/admin/projects/{project}/quotas", to: .showProjectQuotas,
            by: .operatorsAndBackends(.read),
            about: "Show a project's quotas, and what is left of each."),
        Route(
            .patch, "/admin/projects/{project}/quotas", to: .setProjectQuotas, by: .operators(.operate),
            body: .json,
            about: "Change a project's quotas."),
        Route(
            .post, "/admin/projects/{project}/subscribe", to: .subscribeDevices,
            by: .operatorsAndBackends(.operate),
            body: .batch, about: "Subscribe up to 1,000 devices to a topic."),
        Route(
            .post, "/admin/projects/{project}/unsubscribe", to: .unsubscribeDevices,
            by: .operatorsAndBackends(.operate), body: .batch,
            about: "End up to 1,000 subscriptions to a topic."),
    ]

    private static let pushes: [Route] = [
        Route(
            .get, "/admin/projects/{project}/push", to: .showPush, by: .operators(.read),
            about: "Show a project's settings for push services."),
        Route(
            .delete, "/admin/projects/{project}/push", to: .endPush, by: .operators(.admin),
            about: "End all push services of a project."),
        Route(
            .post, "/admin/projects/{project}/push/web", to: .setWebPush, by: .operators(.admin),
            body: .settings,
            about: "Set up Web Push."),
        Route(
            .delete, "/admin/projects/{project}/push/web", to: .endWebPush, by: .operators(.admin),
            about: "End Web Push."),
        Route(
            .post, "/admin/projects/{project}/push/apns", to: .setAPNs, by: .operators(.admin),
            body: .settings,
            about: "Set up Apple's push service for an app."),
        Route(
            .delete, "/admin/projects/{project}/push/apns", to: .endAPNs, by: .operators(.admin),
            about: "End Apple's push service."),
        Route(
            .delete, "/admin/projects/{project}/push/apns/{environment}/{bundle}", to: .removeAPNsKey,
            by: .operators(.admin), about: "Remove the key of one app in `production` or `sandbox`."),
        Route(
            .post, "/admin/projects/{project}/push/fcm", to: .setRelay, by: .operators(.admin),
            body: .settings,
            about: "Set up the relay to Firebase."),
        Route(
            .delete, "/admin/projects/{project}/push/fcm", to: .endRelay, by: .operators(.admin),
            about: "End the relay to Firebase."),
        Route(
            .post, "/admin/projects/{project}/push/serve", to: .servePush, by: .operators(.admin),
            body: .json,
            about: "Make the project a push service for user agents."),
        Route(
            .delete, "/admin/projects/{project}/push/serve", to: .endPushService, by: .operators(.admin),
            about: "End the push service for user agents."),
    ]

    /// A development server alone has these.
    private static let emulator: [Route] = [
        Route(
            .delete, "/emulator/v1/projects/{project}", to: .forgetEmulated, by: .anyone,
            about: "Delete a project with its devices, messages and faults."),
        Route(
            .get, "/emulator/v1/projects/{project}/messages", to: .listEmulatedMessages, by: .anyone,
            about: "List the messages that were sent."),
        Route(
            .delete, "/emulator/v1/projects/{project}/messages", to: .forgetEmulatedMessages, by: .anyone,
            about: "Forget the messages that were sent."),
        Route(
            .get, "/emulator/v1/projects/{project}/faults", to: .listFaults, by: .anyone,
            about: "List the faults."),
        Route(
            .post, "/emulator/v1/projects/{project}/faults", to: .addFault, by: .anyone, body: .json,
            about: "Ask for a fault of the next sends."),
        Route(
            .delete, "/emulator/v1/projects/{project}/faults", to: .forgetFaults, by: .anyone,
            about: "End all faults."),
    ]
}
