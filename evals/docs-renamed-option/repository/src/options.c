static const struct option options[] = {
    {"parallel", required_argument, NULL, 'j'},
    {"keep-going", no_argument, NULL, 'k'},
};
