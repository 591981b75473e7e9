import js from "@eslint/js";

export default [
  js.configs.recommended,
  {
    files: ["**/*.js"],
    linterOptions: { reportUnusedDisableDirectives: "error" },
    languageOptions: { sourceType: "script" },
    rules: {
      // The scripts are put together into one: what one of them defines at its top, others use.
      // That every name is there is what tsc checks.
      "no-undef": "off",
      "no-unused-vars": ["error", { vars: "local" }],
      "eqeqeq": "error",
      "no-shadow": "error",
      "no-var": "error",
      "prefer-const": "error",
      "no-implicit-coercion": "error",
    },
  },
];
